"""Results as text, tables, reports, JSON and plots; and the door for sections of your own."""

from offpolicy._document import Axis, Code, Facts, Figure, Figures, Mark, Markup, Paragraph, Picture, Section, Table
from offpolicy.show.document import forget, register
from offpolicy.show.parts import Part, Subject

__all__ = [
    "Axis", "Code", "Facts", "Figure", "Figures", "Mark", "Markup", "Paragraph", "Part", "Picture", "Section",
    "Subject", "Table", "forget", "register",
]  # fmt: skip
