"""Read the words that people wrote out of an mbox file or a maildir.

What was quoted, attached, signed by a machine or encrypted is left out: a model that learns to
repeat quotes learns little. The mailbox is only read, never locked, and one message is in memory
at a time beside the texts that are kept. Nothing leaves the machine.
"""

from __future__ import annotations

import mailbox
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from html.parser import HTMLParser
from pathlib import Path

MAX_MESSAGE_BYTES = 50 * 2**20
MAX_TEXT_BYTES = 2**20


@dataclass
class MailReport:
    """How many messages were read and kept, and why the others were skipped."""

    n_read: int = 0
    n_kept: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        reasons = ", ".join(f"{n} {reason}" for reason, n in self.skipped.most_common())
        text = f"{self.n_read} messages read, {self.n_kept} kept"
        return f"{text}, {self.skipped.total()} skipped ({reasons})" if reasons else text


def read_mailbox(path: Path | str) -> tuple[list[str], MailReport]:
    """Return the text of each message, its subject first, and a report.

    Malformed mail is saved as far as it can be, otherwise counted and skipped. A maildir's
    subfolders are mailboxes of their own and are not read.

    Raises ValueError for a path that is no mailbox, or whose messages hold no text.
    """
    path = Path(path)
    with suppress(RuntimeError):  # ~somebody, who is not there: then it is a file of that name
        path = path.expanduser()
    texts: list[str] = []
    report = MailReport()
    with closing(_open(path)) as box:
        for raw in _raw_messages(box):
            report.n_read += 1
            text, reason = _text_or_reason(raw)
            if reason:
                report.skipped[reason] += 1
            else:
                report.n_kept += 1
                texts.append(text)
    if not texts:
        raise ValueError(f"mailbox {path}: no text to learn from ({report}); give another mailbox")
    return texts, report


def _open(path: Path) -> mailbox.mbox | mailbox.Maildir:
    what = "give an mbox file, or a maildir (the folder that holds cur/ and new/)"
    try:
        if path.is_dir():
            if not ((path / "cur").is_dir() and (path / "new").is_dir()):
                raise ValueError(f"mailbox {path}: the folder is no maildir; {what}")
            return mailbox.Maildir(path, create=False)
        with path.open("rb") as file:
            start = file.read(5)
        if start != b"From ":
            problem = 'the file does not start with "From "' if start else "the file is empty"
            raise ValueError(f"mailbox {path}: {problem}; {what}")
        return mailbox.mbox(path, create=False)
    except FileNotFoundError:
        raise ValueError(f"mailbox {path}: does not exist; {what}") from None
    except OSError as error:
        raise ValueError(f"mailbox {path}: can't be read ({error.strerror}); {what}") from None


def _raw_messages(box: mailbox.mbox | mailbox.Maildir) -> Iterator[bytes | None]:
    """Yield the bytes of each message, up to one more than we take; None if it went away."""
    for key in box.keys():  # noqa: SIM118 (iterating a mailbox would parse the messages)
        try:
            with box.get_file(key) as file:
                raw = file.read(MAX_MESSAGE_BYTES + 1)
        except (KeyError, OSError):
            yield None  # another program moved or deleted it meanwhile
            continue
        if isinstance(box, mailbox.mbox):
            raw = re.sub(rb"(?m)^>(>*From )", rb"\1", raw)  # mbox escapes such lines
        yield raw


def _text_or_reason(raw: bytes | None) -> tuple[str, str]:
    """Return the text of one message, or why there is none."""
    if raw is None:
        return "", "gone while reading"
    if len(raw) > MAX_MESSAGE_BYTES:
        return "", "too large"
    try:
        message = message_from_bytes(raw)
        if not message.keys():
            return "", "without headers"
        body, subject = _body(message), _subject(message)
    except Exception:  # the email package raises errors of many types on malformed mail
        return "", "malformed"
    if len(body) > MAX_TEXT_BYTES:
        return "", "too large"
    body = own_words(body)
    if not body:
        return "", "without text of its own"
    return (f"Subject: {subject}\n{body}" if subject else body), ""


def _subject(message: Message) -> str:
    raw = next((v for name, v in message.raw_items() if name.lower() == "subject"), "")
    text = _decode(str(raw).encode("utf-8", "surrogateescape"), None)
    try:
        pieces = decode_header(text)
    except HeaderParseError:
        pieces = [(text, None)]
    words = "".join(
        piece
        if isinstance(piece, str)
        else _decode(piece, charset)
        if charset
        else piece.decode("raw-unicode-escape", "replace")  # how decode_header packs plain parts
        for piece, charset in pieces
    )
    return " ".join(_clean(words).split())


def _body(message: Message) -> str:
    """Return the first plain text; without one, the first HTML without its tags."""
    html = ""
    parts = [message]
    while parts:
        part = parts.pop()
        if part.get_content_disposition() == "attachment" or part.get_filename():
            continue
        payload = part.get_payload()
        if part.get_content_maintype() == "multipart" and isinstance(payload, list):
            parts.extend(p for p in reversed(payload) if isinstance(p, Message))
            continue
        payload = part.get_payload(decode=True)
        if part.get_content_type() in ("text/plain", "text/html") and isinstance(payload, bytes):
            text = _decode(payload, part.get_content_charset())
            if part.get_content_type() == "text/plain" and text.strip():
                return text
            html = html or text
    return _strip_html(html) if len(html) <= MAX_TEXT_BYTES else html


def _decode(data: bytes, charset: str | None) -> str:
    for name in (charset, "utf-8"):
        try:
            return data.decode(name or "utf-8")
        except (LookupError, ValueError):  # an unknown charset, or bytes that it does not have
            continue
    return data.decode("latin-1")


def _clean(text: str) -> str:
    """Unify line ends and drop control characters and halves of characters."""
    text = re.sub(r"\r\n?", "\n", text).replace("\t", " ").replace("\xa0", " ")
    return re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "", text)


_PGP_BLOCK = re.compile(
    r"^-----BEGIN PGP (?!SIGNED)([A-Z ,]+)-----$.*?(?:^-----END PGP \1-----$|\Z)", re.M | re.S
)
_PGP_HEADER = re.compile(r"^-----BEGIN PGP SIGNED MESSAGE-----\n(?:\w+: .*\n)*", re.M)
_LINES = r"[^\n]{1,200}(?:\n[^\n]{1,200}){0,2}?"  # an attribution may be wrapped
_WROTE = (
    rf"On\b{_LINES}\bwrote",
    rf"Am\b{_LINES}\bschrieb(?:{_LINES})?",
    rf"Le\b{_LINES}\ba écrit",
    rf"El\b{_LINES}\bescribió",
    rf"Il\b{_LINES}\bha scritto",
    rf"Op\b{_LINES}\bschreef(?:{_LINES})?",
    rf"Em\b{_LINES}\bescreveu",
)
_ATTRIBUTION = re.compile(rf"^(?:{'|'.join(_WROTE)}) ?:$", re.M)
_OLDER = (
    "(?:original|forwarded) message",
    "(?:ursprüngliche |original-|weitergeleitete )nachricht",
    "message (?:d['’]origine|original|transféré)",
    "mensaje (?:original|reenviado)",
    "messaggio (?:originale|inoltrato)",
    "(?:oorspronkelijk|doorgestuurd) bericht",
    "mensagem (?:original|encaminhada)",
)
_FROM = "(?:From|Von|De|Da|Van) ?:"
_SENT = "(?:Sent|Date|Gesendet|Datum|Envoyé|Enviad[oa](?: e[lm])?|Inviato|Data|Verzonden) ?:"
_TO = "(?:To|An|À|Para|A|Aan) ?:"
_ORIGINAL = re.compile(
    rf"^(?:-{{2,}} ?(?i:{'|'.join(_OLDER)}) ?-{{2,}}$|Begin forwarded message:$"
    rf"|_{{10,}}\n{_FROM}|{_FROM}.*\n{_SENT}.*\n{_TO})",
    re.M,
)
_SIGNATURE = re.compile(r"^-- ?$", re.M)
_SENT_FROM = re.compile(r"^Sent from my .*$", re.M)


def own_words(body: str) -> str:
    """Remove quoted replies, what introduces them, signatures and PGP blocks from a plain text."""
    text = "\n".join(line.rstrip() for line in _clean(body).split("\n"))
    text = _PGP_BLOCK.sub("", _PGP_HEADER.sub("", text))
    if original := _ORIGINAL.search(text):
        text = text[: original.start()]
    text = _without_attributions(text)
    text = "\n".join(line for line in text.split("\n") if not line.startswith(">"))
    if signature := _SIGNATURE.search(text):
        text = text[: signature.start()]
    text = _SENT_FROM.sub("", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _without_attributions(text: str) -> str:
    """Remove lines such as "On 3 May, Mei wrote:", and the reply below them if it has no ">".

    Only with a digit, that of the date: people write such sentences too.
    """
    kept, end = "", 0
    for match in _ATTRIBUTION.finditer(text):
        if not re.search(r"\d", match[0]):
            continue
        kept += text[end : match.start()]
        end = match.end()
        if not text[end:].lstrip().startswith(">"):
            return kept
    return kept + text[end:]


class _TextOfHTML(HTMLParser):
    """Collect the text, with line breaks at blocks, without scripts and quoted replies."""

    BLOCKS = re.compile("address|article|br|div|h[1-6r]|li|ol|p|pre|table|tr|ul")
    HIDDEN = ("blockquote", "script", "style", "title")

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden_by = ""  # the tag that hides what is inside it, and how deep it is nested
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._hidden_by:
            self._depth += tag == self._hidden_by
        elif tag in self.HIDDEN or (
            tag == "div" and "gmail_quote" in (dict(attrs).get("class") or "")
        ):
            self._hidden_by, self._depth = tag, 1
        elif self.BLOCKS.fullmatch(tag):
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if self._hidden_by == tag:
            self._depth -= 1
            if not self._depth:
                self._hidden_by = ""
        elif self.BLOCKS.fullmatch(tag) and not self._hidden_by:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden_by:
            self.pieces.append(re.sub(r"\s+", " ", data))


# Taken out first, since the parser's time is quadratic in what never ends: comments,
# declarations, and each "<" without a ">" before the next "<".
_UNFINISHED = re.compile(r"<!--.*?(?:-->|\Z)|<[!?][^>]*(?:>|\Z)|<(?=[^<>]*(?:<|\Z))", re.S)


def _strip_html(html: str) -> str:
    parser = _TextOfHTML()
    parser.feed(_UNFINISHED.sub("", html))
    parser.close()
    lines = (" ".join(line.split()) for line in "".join(parser.pieces).split("\n"))
    return re.sub(r"\n{2,}", "\n", "\n".join(lines)).strip()
