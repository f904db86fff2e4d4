"""Put a module's public names on a page, with signatures and docstrings: `{api} losses`.

A Sphinx extension (`local_extensions` in `_config.yml`). griffe reads the sources and imports
nothing, so that a build needs no PyTorch. What it finds is written as Markdown, which the
docstrings are already, with the directives of Sphinx's Python domain: these make the links, the
index and the search.
"""

from __future__ import annotations

import ast
import functools
import json
import re
from pathlib import Path

import griffe
from docutils import nodes
from docutils.statemachine import StringList
from griffe import Attribute, Class, Docstring, Function, Module, Object, ParameterKind
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parent.parent
LONGEST_VALUE = 60
STARS = {ParameterKind.var_positional: "*", ParameterKind.var_keyword: "**"}
HEADINGS = {"parameters": "Args", "raises": "Raises"}


class Api(SphinxDirective):
    """`{api} losses` shows `tfcourse.losses`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        try:
            module = read_package()[self.arguments[0]]
        except KeyError:
            raise self.error(f"tfcourse has no module {self.arguments[0]}") from None
        self.env.note_dependency(str(module.filepath))
        self.env.note_dependency(__file__)
        file = module.filepath.relative_to(ROOT).as_posix()
        theme = self.config.html_theme_options
        address = f"{theme['repository_url']}/blob/{theme['repository_branch']}/{file}"
        text = [
            fenced("py:module", module.path),
            prose(module.docstring),
            f"File: [`{file}`]({address}){taught_in(file)}",
            *members(module),
        ]
        parent = nodes.Element()
        self.state.nested_parse(StringList("\n\n".join(text).splitlines()), 0, parent)
        for reference in parent.findall(pending_xref):
            if reference["refdomain"] == "py":
                reference["reftype"] = "obj"  # a type may be an alias, which to Sphinx is data
        return parent.children


@functools.cache
def read_package() -> Module:
    """Read all of `tfcourse` without importing it."""
    return griffe.load(
        "tfcourse", search_paths=[ROOT], allow_inspection=False, docstring_parser="google"
    )


def taught_in(file: str) -> str:
    """Link the chapters whose text names the file."""
    chapters = [
        f"{{doc}}`/chapters/{path.stem}`"
        for path in sorted(ROOT.glob("chapters/*.ipynb"))
        if f"`{file}`" in path.read_text(encoding="utf-8")
    ]
    return f". Taught in: {', '.join(chapters)}" if chapters else ""


def members(parent: Module | Class) -> list[str]:
    """Write the public names that are defined here, in the order of the source."""
    writers = {"class": write_class, "function": write_function, "attribute": write_attribute}
    return [
        writers[member.kind.value](member)
        for name, member in parent.members.items()
        if not (name.startswith("_") or member.is_alias or member.is_module or is_internal(member))
    ]


def is_internal(member: Object) -> bool:
    """Say whether a name is one that only a method sets: `self.x = ...`."""
    return member.is_attribute and not member.annotation and member.labels == {"instance-attribute"}


def write_class(thing: Class) -> str:
    # The fields of a dataclass, its parameters, stand below it with their meanings.
    own_init = "__init__" in thing.members and "dataclass" not in thing.labels
    signature = parameters(thing) if own_init else ""
    bases = ", ".join(f"{{py:obj}}`{link(base)}`" for base in thing.bases)
    text = [f"Bases: {bases}" if bases else "", prose(thing.docstring), *members(thing)]
    return fenced("py:class", thing.name + signature, *text)


def write_function(thing: Function) -> str:
    kind = "py:method" if thing.parent.is_class else "py:function"
    options = {label: "" for label in ("classmethod", "staticmethod") if label in thing.labels}
    returns = f" -> {link(thing.returns)}" if thing.returns else ""
    title = thing.name + parameters(thing) + returns
    return fenced(kind, title, prose(thing.docstring), options=options)


def write_attribute(thing: Attribute) -> str:
    kind = "py:attribute" if thing.parent.is_class else "py:data"
    text, options = prose(thing.docstring), {}
    type_, value = thing.annotation, str(thing.value)
    if isinstance(type_, griffe.ExprSubscript) and type_.canonical_path == "typing.Annotated":
        type_, meaning = type_.slice.elements
        text = ast.literal_eval(meaning)
    if type_:
        options["type"] = link(type_)
    if "property" in thing.labels:
        kind = "py:property"
    elif thing.value is not None and len(value) <= LONGEST_VALUE:
        options["value"] = value
    return fenced(kind, thing.name, text, options=options)


def parameters(thing: Class | Function) -> str:
    """Write a signature's parameters with full names, which Sphinx shortens and links."""
    written, keyword_only = [], False
    for parameter in thing.parameters:
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is ParameterKind.keyword_only and not keyword_only:
            written.append("*")
        keyword_only = parameter.kind in (ParameterKind.keyword_only, ParameterKind.var_positional)
        text = STARS.get(parameter.kind, "") + parameter.name
        if parameter.annotation is not None:
            text += f": {link(parameter.annotation)}"
        if parameter.default is not None and parameter.kind not in STARS:
            text += f" = {parameter.default}"
        written.append(text)
    return f"({', '.join(written)})"


def link(expression: str | griffe.Expr) -> str:
    """Write an annotation with full names; `~` has Sphinx show only the last part of each."""
    if isinstance(expression, (griffe.ExprName, griffe.ExprAttribute)):
        path = expression.canonical_path
        return f"~{path}" if "." in path else path
    if isinstance(expression, griffe.Expr):
        return "".join(link(part) for part in expression.iterate(flat=False))
    return expression


def prose(docstring: Docstring | None) -> str:
    """Write a docstring, with its sections as lists."""
    text = []
    for section in docstring.parsed if docstring else []:
        kind = section.kind.value
        if kind == "text":
            text.append(section.value)
        elif kind in HEADINGS:
            text.append(f"**{HEADINGS[kind]}**")
            for item in section.value:
                name = item.name if kind == "parameters" else str(item.annotation).strip("()")
                text.append(f"- `{name}`: {item.description}".replace("\n", "\n  "))
        else:
            known = " and ".join(HEADINGS.values())
            raise ExtensionError(f"{docstring.parent.path}: {kind}? Docstrings here have {known}")
    return "\n\n".join(text)


def fenced(directive: str, argument: str, *body: str, options: dict[str, str] | None = None) -> str:
    """Write a directive with a fence that is longer than any within."""
    text = "\n\n".join(body)
    fence = "`" * (1 + max(map(len, re.findall("`{3,}", text)), default=2))
    lines = [f":{name}: {json.dumps(value)}" for name, value in (options or {}).items()]
    return "\n".join([f"{fence}{{{directive}}} {argument}", *lines, "", text, fence])


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("api", Api)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
