"""The rooms of the library and who imports whom, read from the source: python docs/make_architecture.py.

Writes the picture and the tables of docs/architecture.md. Every import counts, those inside functions too; only what
type checkers read is left out. tests/unit/test_layers.py uses the same reader.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "offpolicy"
PAGE = HERE / "architecture.md"
PICTURE = HERE / "pictures" / "architecture.svg"

# From left to right. A room imports from rooms further left only; rooms of one place do not know each other.
ORDER: tuple[tuple[str, ...], ...] = (
    ("errors", "_version", "_arrays", "_threads", "_progress", "_visible", "_doors", "_document"),
    ("_output", "_arguments"),
    ("_workspace",),
    ("logs",),
    ("policies",),
    ("splits",),
    ("models",),
    ("scores",),
    ("columns",),
    ("inference",),
    ("trust",),
    ("kinds",),
    ("engines", "evaluation"),
    ("decide",),
    ("show",),
    ("cli", "testing"),
    ("__init__", "__main__"),
)
PLACE = {room: i for i, rooms in enumerate(ORDER) for room in rooms}
SHARED, DOOR = (*ORDER[0], *ORDER[1], *ORDER[2]), ORDER[-1]


@dataclass(frozen=True)
class Import:
    """A module or name that is imported, and whether that happens when the importing file is loaded."""

    name: str
    loading: bool


@dataclass(frozen=True)
class Module:
    """One file: its dotted name inside the package, its first sentence, and what it imports."""

    name: str
    purpose: str
    imports: tuple[Import, ...]

    @property
    def room(self) -> str:
        """The first part of the name."""
        return self.name.split(".")[0]


def read(text: str, name: str) -> Module:
    """A module from its source."""
    tree = ast.parse(text)
    return Module(name, first_sentence(ast.get_docstring(tree) or ""), tuple(_imports(tree)))


def first_sentence(docstring: str) -> str:
    """What a docstring says first, on one line."""
    paragraph = " ".join(docstring.split("\n\n", maxsplit=1)[0].split())
    return re.split(r"(?<=[.!?])\s", paragraph)[0]


def _imports(node: ast.AST, *, loading: bool = True) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for otherwise in child.orelse:
                yield from _imports(ast.Module([otherwise], []), loading=loading)
            continue
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, loading) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield from (Import(f"{child.module}.{alias.name}", loading) for alias in child.names)
        inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _imports(child, loading=loading and not inside)


def modules(source: Path = SOURCE) -> dict[str, Module]:
    """Every file of the package, by its dotted name; a package is called after its folder."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = read(path.read_text(encoding="utf-8"), name)
    return found


def edges(everything: dict[str, Module]) -> dict[str, set[str]]:
    """Which modules of the package each module imports, itself left out."""
    out: dict[str, set[str]] = {name: set() for name in everything}
    for name, module in everything.items():
        for each in module.imports:
            parts = each.name.split(".")
            if parts[0] != "offpolicy":
                continue
            # The longest beginning that is a module; what is left are names inside it.
            known = (".".join(parts[1:end]) for end in range(len(parts), 1, -1))
            out[name].add(next((other for other in known if other in everything), "__init__"))
        out[name].discard(name)
    return out


def arrows(everything: dict[str, Module]) -> dict[str, set[str]]:
    """Which rooms each room imports from."""
    out: dict[str, set[str]] = {module.room: set() for module in everything.values()}
    for name, others in edges(everything).items():
        room = everything[name].room
        out[room] |= {everything[other].room for other in others} - {room}
    return out


def homeless(everything: dict[str, Module]) -> list[str]:
    """Modules that are in no room of the order."""
    return [name for name, module in everything.items() if module.room not in PLACE]


def wrong_ways(everything: dict[str, Module]) -> list[str]:
    """Imports that do not go to the left."""
    wrong = []
    for name, others in edges(everything).items():
        room = everything[name].room
        for other in sorted(others):
            there = everything[other].room
            if there != room and PLACE.get(there, 99) >= PLACE.get(room, -1):
                wrong.append(f"{name} imports {other}")
    return wrong


def circle(graph: dict[str, set[str]]) -> list[str]:
    """A circle of arrows, or nothing."""
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        return list(error.args[1])
    return []


def load_time(everything: dict[str, Module], libraries: Iterable[str]) -> list[str]:
    """Modules that import one of some libraries when they are loaded."""
    heavy = set(libraries)
    return [
        f"{name} loads {each.name}"
        for name, module in everything.items()
        for each in module.imports
        if each.loading and each.name.split(".")[0] in heavy
    ]


def users(everything: dict[str, Module], library: str) -> set[str]:
    """Modules that import a library, anywhere."""
    return {
        name
        for name, module in everything.items()
        if any(each.name.split(".")[0] == library for each in module.imports)
    }


# -- the page ------------------------------------------------------------------------------------------


def direct(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Arrows that do not follow from others."""

    def reach(room: str) -> set[str]:
        return graph[room].union(*(reach(other) for other in graph[room]))

    return {room: {b for b in others if not any(b in reach(c) for c in others - {b})} for room, others in graph.items()}


def shown(everything: dict[str, Module]) -> dict[str, set[str]]:
    """Rooms and arrows of the picture: what everyone uses, and the door, are left out."""
    hidden = {*SHARED, *DOOR}
    graph = {room: others - hidden for room, others in arrows(everything).items() if room not in hidden}
    return direct(graph)


def columns_of(graph: dict[str, set[str]]) -> dict[str, int]:
    """The column of each room: one to the right of the rightmost room that it imports from."""
    column: dict[str, int] = {}
    for room in TopologicalSorter(graph).static_order():
        column[room] = 1 + max((column[other] for other in graph[room]), default=-1)
    return column


WIDTH, HEIGHT, STEP_X, STEP_Y, MARGIN = 96, 34, 132, 62, 12


def picture(everything: dict[str, Module]) -> str:
    """The rooms and the arrows between them as SVG; an arrow that skips columns runs on a line of its own."""
    graph = shown(everything)
    column = columns_of(graph)
    points, paths = _placed(graph, column)
    lowest = max(y for _, y in points.values())
    width = MARGIN * 2 + max(column.values()) * STEP_X + WIDTH
    height = MARGIN * 2 + lowest * STEP_Y + HEIGHT
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" width="{width}" '
        f'height="{height:g}" font-family="system-ui, sans-serif" font-size="14" role="img">'
    )
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#808890"/></marker></defs>'
    )
    title = "<title>The rooms of offpolicy, and which of them import from which</title>"
    lines = [head, title, tip]
    for path in paths:
        spots = [points[node] for node in path]
        lines.append(f'<path d="{_curve(spots)}" fill="none" stroke="#808890" marker-end="url(#tip)"/>')
    for room in graph:
        x, y = MARGIN + points[room][0] * STEP_X, MARGIN + points[room][1] * STEP_Y
        lines.append(
            f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#eef3f8" '
            f'stroke="#3b6ea5"/><text x="{x + WIDTH / 2:g}" y="{y + 22:g}" text-anchor="middle" '
            f'fill="#1d3550">{room}</text>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def _placed(graph: dict[str, set[str]], column: dict[str, int]) -> tuple[dict[str, tuple[int, float]], list[list[str]]]:
    """Where rooms and the bends of long arrows are, and the way of each arrow from left to right."""
    layers: list[list[str]] = [[] for _ in range(max(column.values()) + 1)]
    for room in sorted(graph, key=PLACE.__getitem__):
        layers[column[room]].append(room)
    paths = []
    for room, others in graph.items():
        for other in sorted(others):
            bends = [f"{other}>{room}@{c}" for c in range(column[other] + 1, column[room])]
            for bend in bends:
                layers[int(bend.rpartition("@")[2])].append(bend)
            paths.append([other, *bends, room])
    near: dict[str, list[str]] = {}
    for path in paths:
        for a, b in pairwise(path):
            near.setdefault(a, []).append(b)
            near.setdefault(b, []).append(a)
    row = {node: float(i) for layer in layers for i, node in enumerate(layer)}
    for _ in range(24):  # everyone moves to the middle of its neighbors; rows stay apart
        for layer in layers:
            wish = {n: sum(row[m] for m in near.get(n, [n])) / len(near.get(n, [n])) for n in layer}
            layer.sort(key=wish.__getitem__)
            for i, node in enumerate(layer):
                row[node] = float(i) - (len(layer) - 1) / 2
    top = min(row.values())
    return {n: (c, row[n] - top) for c, layer in enumerate(layers) for n in layer}, paths


def _curve(spots: list[tuple[int, float]]) -> str:
    """A smooth line that leaves to the right and arrives from the left."""

    def at(spot: tuple[int, float]) -> tuple[float, float]:
        return MARGIN + spot[0] * STEP_X, MARGIN + spot[1] * STEP_Y + HEIGHT / 2

    x, y = at(spots[0])
    x += WIDTH
    out = f"M{x:g} {y:g}"
    for i, spot in enumerate(spots[1:], 1):
        to_x, to_y = at(spot)
        middle = (x + to_x) / 2
        out += f"C{middle:g} {y:g} {middle:g} {to_y:g} {to_x:g} {to_y:g}"
        x, y = to_x, to_y
        if i < len(spots) - 1:
            x += WIDTH
            out += f"H{x:g}"
    return out


def table_of_rooms(everything: dict[str, Module]) -> str:
    """One line per room: what it is for, and the rooms it imports from."""
    rows = ["| room | what is in it | imports from |", "|---|---|---|"]
    graph = arrows(everything)
    for room in (room for rooms in ORDER[3:-1] for room in rooms):
        others = [other for other in PLACE if other in graph[room] and other not in SHARED]
        rows.append(f"| `{room}/` | {_cell(everything[room].purpose)} | {', '.join(others)} |")
    return "\n".join(rows)


def tables_of_modules(everything: dict[str, Module]) -> str:
    """Every module with its first sentence, by room."""
    groups = [("What everyone uses", SHARED)]
    groups += [(f"{room}/", (room,)) for rooms in ORDER[3:-1] for room in rooms]
    groups += [("The door", DOOR)]
    parts = []
    for title, rooms in groups:
        rows = [f"### {title}", "", "| module | what it is for |", "|---|---|"]
        for room in rooms:
            own = [m for m in everything.values() if m.room == room]
            if len(own) > 1:
                own = [m for m in own if m.name != room]
            rows += [f"| `{_file(m, everything)}` | {_cell(m.purpose)} |" for m in own]
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def _file(module: Module, everything: dict[str, Module]) -> str:
    """The file of a module inside its room."""
    parts = module.name.split(".")
    package = any(name.startswith(f"{module.name}.") for name in everything)
    return "/".join(parts[1:] or parts) + ("/" if package else ".py")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def filled(page: str, everything: dict[str, Module]) -> str:
    """The page with what is generated put between its markers."""
    for name, text in (("rooms", table_of_rooms(everything)), ("modules", tables_of_modules(everything))):
        start, end = f"<!-- {name}: generated -->", f"<!-- {name}: end -->"
        before, found, rest = page.partition(start)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise SystemExit(f"{PAGE.name} has no place for {name}: it needs {start} and {end}.")
        page = f"{before}{start}\n{text}\n{end}{after}"
    return page


def main() -> None:
    everything = modules()
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), everything), encoding="utf-8")
    PICTURE.write_text(picture(everything), encoding="utf-8")


if __name__ == "__main__":
    main()
