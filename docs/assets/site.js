// What the theme leaves out for those who do not use a mouse: a name for the search, and tables that keys can scroll.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search")
  for (const part of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) part.tabIndex = 0
})
