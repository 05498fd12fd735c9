"""The online-ads study of section 5.2: a simulated ad platform, Table 2 and Figure 2."""
