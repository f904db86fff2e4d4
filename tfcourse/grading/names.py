"""Which names a piece of code gives a value, and which it uses."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence


def parse(source: str) -> ast.Module:
    """Read code; what is none has no statements."""
    try:
        return ast.parse(textwrap.dedent(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def used_names(source: str, shared: Sequence[str] = ()) -> set[str]:
    """Return what code imports, looks up as attributes, or reads without giving it a value.

    A name that a cell of `shared` gives a value, as in `Norm = nn.LayerNorm`, stands for the names
    that are used there.
    """
    behind: dict[str, list[ast.stmt]] = {}
    for statement in (s for cell in shared for s in _statements(cell)):
        for name in _gives(statement):
            behind.setdefault(name, []).append(statement)
    code = ast.Module(_statements(source), [])
    found, todo, seen = _named(code), list(read_names(code)), set[str]()
    while todo:
        if (name := todo.pop()) in seen:
            continue
        seen.add(name)
        for statement in behind.get(name, ()):
            found |= _named(statement)
            todo += read_names(statement)
        if name not in behind:
            found.add(name)
    return found


def given_names(code: ast.Module) -> set[str]:
    """Return the names to which the statements of a cell give a value."""
    return {name for statement in code.body for name in _gives(statement)}


def read_names(code: ast.AST) -> set[str]:
    """Return the names that code reads without giving them a value anywhere in it."""
    read, given = set[str](), set[str]()
    for node in ast.walk(code):
        if isinstance(node, ast.Name):
            (given if isinstance(node.ctx, ast.Store) else read).add(node.id)
        elif isinstance(node, ast.arg):
            given.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            given.add(node.name)
        elif isinstance(node, ast.alias):
            given.add(_alias(node))
    return read - given


def _statements(source: str) -> list[ast.stmt]:
    """Read code with its imports of several names taken apart, and without the one of `check`."""
    statements: list[ast.stmt] = []
    for s in parse(source).body:
        if isinstance(s, ast.Import):
            statements += [ast.Import([name]) for name in s.names]
        elif isinstance(s, ast.ImportFrom):
            statements += [
                ast.ImportFrom(s.module, [name], s.level)
                for name in s.names
                if (s.module, name.name) != ("tfcourse.grading", "check")
            ]
        else:
            statements.append(s)
    return statements


def _gives(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}  # not what is given inside
    stored = {
        n.id
        for n in ast.walk(statement)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    return stored | {_alias(node) for node in ast.walk(statement) if isinstance(node, ast.alias)}


def _alias(node: ast.alias) -> str:
    return node.asname or node.name.partition(".")[0]


def _named(code: ast.AST) -> set[str]:
    """Return what code looks up as an attribute, or imports, modules included."""
    named: set[str] = set()
    for node in ast.walk(code):
        if isinstance(node, ast.Attribute):
            named.add(node.attr)
        elif isinstance(node, ast.alias):
            named.update(node.name.split("."))
        elif isinstance(node, ast.ImportFrom) and node.module:
            named.update(node.module.split("."))
    return named
