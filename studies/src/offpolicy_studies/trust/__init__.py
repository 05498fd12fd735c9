"""How the checks of the library behave: on clean logs, and on logs with a known defect."""
