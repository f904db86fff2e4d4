"""Any mailbox gives its text or a reason; no mail, however broken, stops the reading."""

import mailbox
import os
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcourse.data import mailbox as reader
from tfcourse.data.mailbox import own_words, read_mailbox

HELLO = b"Subject: Keys\nFrom: a@example.org\n\nHi Mei,\nthe keys are here.\n"


@pytest.fixture
def mbox(tmp_path):
    """Write raw messages to an mbox file and return its path."""

    def write(*messages: bytes) -> Path:
        path = tmp_path / "mail.mbox"
        lines = b"From a@example.org Thu Jan  1 00:00:00 2026\n"
        path.write_bytes(b"".join(lines + message + b"\n" for message in messages))
        return path

    return write


@pytest.fixture
def maildir(tmp_path):
    """Write raw messages to the new/ of a maildir and return its path."""

    def write(*messages: bytes) -> Path:
        path = tmp_path / "Maildir"
        for folder in ("cur", "new", "tmp"):
            (path / folder).mkdir(parents=True)
        for i, message in enumerate(messages):
            (path / "new" / f"{i}.mail").write_bytes(message)
        return path

    return write


def state(path: Path) -> list[tuple]:
    """List all files below a path with content and time of change."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    around = sorted(os.listdir(path.parent))
    return [(p, p.read_bytes(), p.stat().st_mtime_ns) for p in files] + around


@pytest.mark.parametrize("kind", ["mbox", "maildir"])
def test_a_mailbox_gives_its_messages_and_stays_as_it_was(kind, request):
    """Catches: messages moved from new/ to cur/; a lock file left; a mailbox flushed."""
    path = request.getfixturevalue(kind)(HELLO, HELLO.replace(b"Mei", b"Lars"))
    before = state(path)
    texts, report = read_mailbox(path)
    assert sorted(texts) == [
        "Subject: Keys\nHi Lars,\nthe keys are here.",
        "Subject: Keys\nHi Mei,\nthe keys are here.",
    ]
    assert str(report) == "2 messages read, 2 kept"
    assert state(path) == before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: p / "none", "does not exist; give an mbox file, or a maildir"),
        (lambda p: p, "the folder is no maildir; give"),
        (lambda p: _write(p / "empty", b""), "the file is empty; give"),
        (lambda p: _write(p / "x.eml", HELLO), 'does not start with "From "; give'),
        (
            lambda p: _write(p / "m", b"From x\nSubject: only\n\n> a quote\n"),
            r"no text to learn from \(1 messages read, 0 kept, 1 skipped "
            r"\(1 without text of its own\)\); give another mailbox",
        ),
        (lambda p: p / "x.eml" / "below", "can't be read|does not exist"),
    ],
    ids=["missing", "folder", "empty", "no mbox", "no text", "below a file"],
)
def test_a_path_that_is_no_mailbox_is_named_with_what_to_give(tmp_path, make, message):
    """Catches: a traceback from the standard library; an error that does not name the path."""
    (tmp_path / "x.eml").write_bytes(HELLO)
    path = make(tmp_path)
    with pytest.raises(ValueError, match=message) as error:
        read_mailbox(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("Yes.\n\n> Really?\n>> No\nSee you.", "Yes.\n\nSee you."),
        ("Yes.\n\nOn 3 May 2026, Mei wrote:\n> Hm?\n\nBye", "Yes.\n\nBye"),
        ("Yes.\n\nOn Sun, 3 May 2026 at 10:12, Mei Lin\n<mei@x.org> wrote:\n\n> Hm?", "Yes."),
        ("Yes.\n\nAm 3.5.2026 um 10:12 schrieb Mei:\n> Hm?", "Yes."),
        ("Yes.\n\nOn 3 May 2026, Mei wrote:\n\nHm?\nAll of this is hers.", "Yes."),
        ("On the door Mei wrote:\nCome in!", "On the door Mei wrote:\nCome in!"),
        ("On time.\n\nIn 2026 she wrote:\nCome in!", "On time.\n\nIn 2026 she wrote:\nCome in!"),
        ("Yes.\n-- \nMei Lin\nHead of Keys", "Yes."),
        ("Yes -- or no.\n--- a line", "Yes -- or no.\n--- a line"),
        ("Yes.\n-----Original Message-----\nFrom: Mei\n\nHm?", "Yes."),
        ("Yes.\n-----Ursprüngliche Nachricht-----\nVon: Mei\n\nHm?", "Yes."),
        ("Yes.\n-------- Original-Nachricht --------\nHm?", "Yes."),
        ("Yes.\n-----Message d'origine-----\nDe : Mei\n\nHm?", "Yes."),
        ("Yes.\n-----Message d\u2019origine-----\nDe : Mei\n\nHm?", "Yes."),
        ("Yes.\n-------- Messaggio Inoltrato --------\nHm?", "Yes."),
        ("Yes.\n-----Oorspronkelijk bericht-----\nHm?", "Yes."),
        ("Yes.\n-----Mensagem original-----\nHm?", "Yes."),
        ("Yes.\n-----Mensaje original-----\nHm?", "Yes."),
        ("Yes.\n-- My message --\nBye", "Yes.\n-- My message --\nBye"),
        ("Yes.\n\nFrom: Mei\nSent: Monday, 3 May\nTo: Ana\nSubject: Hm?\n\nHm?", "Yes."),
        ("Yes.\n\nVon: Mei\nGesendet: Montag\nAn: Ana\nBetreff: Hm?\n\nHm?", "Yes."),
        ("Yes.\n\nDe : Mei\nEnvoyé : lundi\nÀ : Ana\nObjet : Hm?\n\nHm?", "Yes."),
        ("Yes.\n\nDe: Mei\nEnviado el: lunes\nPara: Ana\nAsunto: Hm?\n\nHm?", "Yes."),
        ("Yes.\n__________\nVan: Mei\nVerzonden: maandag\nAan: Ana\n\nHm?", "Yes."),
        ("From: Rome\nTo: Bari", "From: Rome\nTo: Bari"),
        ("Yes.\n\nIl giorno lun 3 mag 2026 alle 10:12 Mei\n<mei@x.org> ha scritto:\n\nHm?", "Yes."),
        ("Yes.\n\nOp ma 3 mei 2026 om 10:12 schreef Mei <mei@x.org>:\n\nHm?", "Yes."),
        (
            "Yes.\n\nEm seg., 3 de mai. de 2026, Mei <mei@x.org> escreveu:\n> Hm?\nBye",
            "Yes.\n\nBye",
        ),
        ("Yes.\nSent from my telephone\n", "Yes."),
        (
            "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nYes.\n"
            "-----BEGIN PGP SIGNATURE-----\n\niQEz\n-----END PGP SIGNATURE-----\n",
            "Yes.",
        ),
        ("-----BEGIN PGP MESSAGE-----\n\nhQEM\n-----END PGP MESSAGE-----", ""),
        ("-----BEGIN PGP MESSAGE-----\n\nhQEM, cut off", ""),
        ("Yes.\r\n\r\n\r\n\r\nNo\x00\x08.\r\n", "Yes.\n\nNo."),
    ],
)
def test_only_own_words_are_kept(body, kept):
    """Catches: each rule left out in turn; an attribution that eats the writer's own text."""
    assert own_words(body) == kept


def test_plain_text_is_preferred_and_attachments_are_left_out(mbox):
    """Catches: the HTML alternative added to the plain one; an attached text read as the mail."""
    message = EmailMessage()
    message["Subject"] = "Schlüssel für dich"
    message.add_attachment("SECRET", filename="a.txt")
    both = EmailMessage()
    both.set_content("Grüße, Jürgen")
    both.add_alternative("<p>HTML</p>", subtype="html")
    message.attach(both)
    texts, _ = read_mailbox(mbox(bytes(message)))
    assert texts == ["Subject: Schlüssel für dich\nGrüße, Jürgen"]


def test_html_alone_is_read_as_text(mbox):
    """Catches: scripts or the quoted reply in the text; words of two blocks run together."""
    html = (
        "<html><head><title>T</title><style>p {}</style></head><body><p>Hi&nbsp;Mei,</p>"
        "<div>see <b>you</b><br>soon &amp; well</div><script>x</script>"
        '<div class="gmail_quote">On Sunday <div>you</div> wrote <blockquote>old</blockquote></div>'
        "<p>Bye</body>"
    )
    texts, _ = read_mailbox(mbox(b"Content-Type: text/html\n\n" + html.encode()))
    assert texts == ["Hi Mei,\nsee you\nsoon & well\nBye"]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"Subject: =?utf-8?q?caf=C3=A9?= =?utf-8?q?_now?=\n\nYes", "Subject: café now\nYes"),
        (b"Subject: =?klingon?q?Hi?=\n\nYes", "Subject: Hi\nYes"),
        (b"Subject: =?utf-8?b?a?=\n\nYes", "Subject: =?utf-8?b?a?=\nYes"),
        (b"Subject: caf\xe9\n\nYes", "Subject: café\nYes"),
        (b"Subject: caf\xc3\xa9\n\nYes", "Subject: café\nYes"),
        (b"Subject: long\n and folded\n\nYes", "Subject: long and folded\nYes"),
        (b"To: a\nContent-Type: text/plain; charset=klingon\n\ncaf\xc3\xa9", "café"),
        (b"To: a\nContent-Type: text/plain; charset=hex\n\nYes", "Yes"),
        (b"To: a\nContent-Type: text/plain; charset=ascii\n\ncaf\xe9", "café"),
        (
            b"To: a\nContent-Transfer-Encoding: base64\n\nWWVzIQ!=\n",
            "Yes!",
        ),
        (b"To: a\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\nYes, cut", "Yes, cut"),
        (
            b"To: a\nContent-Type: text/plain; charset=utf-7\n\nhalf +2AA-a character",
            "half a character",
        ),
        (b"To: a\n\n>From here on\nFrom the start\n", "From here on\nFrom the start"),
    ],
)
def test_odd_mail_is_saved_as_far_as_it_can_be(mbox, message, text):
    """Catches: an unknown charset or a bad encoded word that raises; `>From ` taken for a quote;
    halves of characters in the text.
    """
    message = message.replace(b"\nFrom the", b"\n>From the")
    texts, report = read_mailbox(mbox(message))
    assert texts == [text]
    assert not report.skipped


def test_tags_and_comments_without_an_end_do_not_stop_the_reader(mbox):
    """Catches: the parser's quadratic time on them, which the time limit of the tests ends."""
    html = b"<p>Hi</p>" + b"<a " * 100_000 + b"<!-- " * 100_000
    texts, _ = read_mailbox(mbox(b"Content-Type: text/html\n\n" + html))
    assert texts[0].startswith("Hi\n")
    assert "<" not in texts[0]


def test_mail_that_the_email_package_fails_on_is_counted(mbox):
    """Catches: an error that is no ValueError: here, parts nested deeper than Python's stack."""
    nested = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (i, i) for i in range(1000)
    )
    _, report = read_mailbox(mbox(HELLO, nested + b"\nHi"))
    assert (report.n_kept, report.skipped) == (1, {"malformed": 1})


def test_what_cannot_be_used_is_counted_by_reason(mbox, monkeypatch):
    """Catches: a reason counted as kept; a message that is read whole before its size is known."""
    monkeypatch.setattr(reader, "MAX_MESSAGE_BYTES", 1000)
    path = mbox(HELLO, b"To: a\n\n> quoted\n", b"no headers here\n", b"To: a\n\n" + b"x" * 1000)
    _, report = read_mailbox(path)
    assert (report.n_read, report.n_kept) == (4, 1)
    assert report.skipped == {"without text of its own": 1, "without headers": 1, "too large": 1}


def test_a_message_that_disappears_meanwhile_is_counted(maildir, monkeypatch):
    """Catches: a crash when a mail program deletes a message while we read."""
    path = maildir(HELLO, HELLO)
    get_file = mailbox.Maildir.get_file

    def vanish(self, key):
        (path / "new" / "1.mail").unlink(missing_ok=True)
        return get_file(self, key)

    monkeypatch.setattr(mailbox.Maildir, "get_file", vanish)
    _, report = read_mailbox(path)
    assert report.skipped == {"gone while reading": 1}


GARBAGE = st.lists(
    st.one_of(
        st.binary(max_size=60),
        st.sampled_from(
            [
                b"\nFrom x\n",
                b"\nSubject: =?utf-8?b?",
                b"\nContent-Type: multipart/mixed; boundary=b\n\n--b\n",
                b"\nContent-Type: text/html; charset=utf-7\n\n<!",
                b"<div class=gmail_quote><![x",
                b"\nContent-Disposition: attachment; filename*0*=utf-8''%ff",
                b"\nContent-Transfer-Encoding: base64\n\n",
                b"\nContent-Transfer-Encoding: uuencode\n\nbegin 644 x\n",
                b"\n--b--\n",
                b"-----BEGIN PGP MESSAGE-----\n",
                b"On 1 wrote:\n",
            ]
        ),
    ),
    max_size=20,
).map(b"".join)


@settings(deadline=None, max_examples=200)
@given(GARBAGE)
def test_no_bytes_crash_the_reader(tmp_path_factory, garbage):
    """Catches: messages that are neither kept nor counted; text that UTF-8 can't hold."""
    path = tmp_path_factory.mktemp("garbage") / "mbox"
    path.write_bytes(b"From x\n" + HELLO + b"\nFrom x\n" + garbage)
    texts, report = read_mailbox(path)
    assert texts[0].startswith("Subject: Keys")
    assert report.n_read == report.n_kept + report.skipped.total()
    for text in texts:
        text.encode()
