"""Showing results: text, versioned JSON, and the HTML report."""
