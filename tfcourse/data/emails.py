"""Generate emails from a probabilistic grammar, and score any text against it exactly.

A language model's loss means little by itself: part of it is ignorance, part of it is the chance
in the text, which no model can predict. For these emails the second part is known. Each email has
exactly one derivation, so its probability is the product of the choices in that derivation.

The notation of `RULES` is explained in `grammar.py`. The ties that a model must find: the
recipient, the colleague and the object return as words or as pronouns, the day's eve follows from
the day, the closing from the greeting, and the last word is the name that the sender gave.
"""

from tfcourse.data.grammar import WORD, Grammar, Row

RULES = {
    "email": ["Subject : <topic> <remark> / {hello.bye} , / {from}"],
    "topic": [
        "{thing:document} <opening> <document>",
        "{thing:event} <opening> <event>",
        "{thing:loan} <opening> <loan>",
        "{thing:order} <opening> <order>",
        "{thing:repair} <opening> <repair>",
    ],
    "opening": ["/ {hello:greeting} {to:name} , / <introduction>"],
    "introduction": [
        "This is {from:name-to} from {team:team} .",
        "{from:name-to} from {team:team} here .",
        "It is {from:name-to} in {team:team} .",
    ],
    "document": [
        "Could you <read> the {thing} before {day:day} ? "
        "{cc:name-to-from} <needs> {thing.it} on {day.eve} <part> .",
        "The {thing} {thing.is} <ready> , but {cc:name-to-from} <found> . "
        "{cc.She} <promised> to correct {thing.it} before {day:day} .",
        "{cc:name-to-from} will <show> the {thing} to our <audience> on {day:day} .",
    ],
    "read": ["check", "read", "print", "translate", "sign", "shorten"],
    "needs": ["needs", "expects", "wants"],
    "part": ["morning", "afternoon", "evening"],
    "ready": ["ready", "complete", "finished"],
    "found": ["found two mistakes", "has a question", "wants some changes"],
    "promised": ["promised", "hopes", "plans"],
    "show": ["present", "explain", "send"],
    "audience": ["clients", "director", "students", "visitors"],
    "event": [
        "The {thing} {thing.is} <moved> to {day:day} , because {cc:name-to-from} is <busy> .",
        "Would you like to <join> the {thing} on {day:day} ? "
        "{cc:name-to-from} and I <meet> at {hour:hour} .",
        "I <booked> the {place:place} for the {thing} on {day:day} . "
        "{cc:name-to-from} will <open> the {place} on {day.eve} .",
    ],
    "moved": ["moved", "postponed", "rescheduled"],
    "busy": ["ill", "away", "travelling", "busy until {day.eve}"],
    "join": ["join", "visit", "attend"],
    "meet": ["meet", "start", "arrive"],
    "booked": ["booked", "reserved", "rented"],
    "open": ["open", "prepare", "decorate", "clean"],
    "loan": [
        "May I borrow the {thing} until {day:day} ? {cc:name-to-from} <returns> {thing.it} <how> .",
        "Thanks for the {thing} ! {cc:name-to-from} will <carry> {thing.it} back on {day:day} .",
        "Yesterday {cc:name-to-from} found the {thing} in the {place:place} . "
        "{cc.She} will keep {thing.it} until {day:day} .",
    ],
    "returns": ["returns", "delivers"],
    "how": ["by car", "in person", "after work"],
    "carry": ["bring", "carry", "send"],
    "order": [
        "Your {thing} will arrive on {day:day} . "
        "{cc:name-to-from} can <receive> {thing.it} at {hour:hour} .",
        "We still wait for the {thing} . "
        "{cc:name-to-from} ordered {thing.it} <when> , for {day:day} .",
        "{cc:name-to-from} <chose> the {color:color} {thing} . "
        "The shop delivers the {color} {thing} on {day:day} .",
    ],
    "receive": ["receive", "collect", "unpack"],
    "when": ["last week", "in spring", "a month ago"],
    "chose": ["chose", "prefers", "ordered"],
    "repair": [
        "The {thing} in the {place:place} {thing.is} <broken> . "
        "{cc:name-to-from} will repair {thing.it} on {day:day} .",
        "Please do not <touch> the {thing} before {day:day} . "
        "{cc:name-to-from} <tests> {thing.it} on {day.eve} <part> .",
        "On {day:day} {cc:name-to-from} <replaces> the {thing} . "
        "{cc.She} needs the key at {hour:hour} .",
    ],
    "broken": ["broken", "noisy", "stuck", "blocked"],
    "touch": ["touch", "use", "move"],
    "tests": ["tests", "paints", "cleans"],
    "replaces": ["replaces", "inspects", "measures"],
    "remark": [
        "Thank you , {to} !",
        "{to} , please <answer> before {day} .",
        "Is {day} too <soon> for you , {to} ?",
        "See you on {day} , {to} .",
        "Good luck with the {thing} , {to} !",
        "Nobody in {team} knows more about the {thing} than {cc} .",
        "If {day} is too <soon> for you , <ask> {cc} .",
        "You can <reach> {cc.her} <through> {team} , {to} .",
        "{cc.She} has already <told> {team} about the {thing} .",
    ],
    "answer": ["answer", "write", "decide"],
    "soon": ["soon", "late", "early"],
    "ask": ["ask", "tell", "call"],
    "reach": ["reach", "find", "meet"],
    "through": ["through", "at", "with"],
    "told": ["told", "asked", "informed"],
}

SINGULAR = {"it": "it", "is": "is"}
PLURAL = {"it": "them", "is": "are"}
SHE = {"She": "She", "her": "her"}
HE = {"She": "He", "her": "him"}
NO_FORMS: dict[str, str] = {}

# Each pool: words, with the other forms that go with them.
POOLS = {
    "name": [
        (
            "Aisha Amara Anna Chiara Elena Fatima Freya Hana Ines Ingrid Leila Lucia "
            "Maria Mei Nadia Olga Priya Rosa Sofia Yuki Zeynep Zola",
            SHE,
        ),
        (
            "Ahmed Anton Bilal Carlos Daniel Diego Emil Felix Hugo Ivan Jamal Kenji "
            "Kofi Lars Marco Mateo Omar Pavel Rafael Ravi Tariq Wei",
            HE,
        ),
    ],
    "document": [
        (
            "report budget contract agenda proposal invoice survey brochure schedule manual",
            SINGULAR,
        ),
        ("slides minutes notes figures photos forms drawings statistics", PLURAL),
    ],
    "event": [
        ("workshop interview concert picnic seminar lecture party ceremony match dinner", SINGULAR),
        ("talks games classes rehearsals auditions lessons races tours", PLURAL),
    ],
    "loan": [
        ("ladder drill tent bicycle camera umbrella suitcase guitar kayak blender", SINGULAR),
        ("headphones keys chairs gloves skis books tools boots", PLURAL),
    ],
    "order": [
        ("sofa desk lamp carpet fridge cake bench jacket piano mirror", SINGULAR),
        ("curtains flowers plants tiles shelves cushions bottles shirts", PLURAL),
    ],
    "repair": [
        ("heater elevator scanner alarm door copier boiler router screen oven", SINGULAR),
        ("lights blinds pipes sensors phones locks radiators cables", PLURAL),
    ],
    "greeting": [
        ("Hi", {"bye": "Cheers"}),
        ("Hello", {"bye": "Best"}),
        ("Dear", {"bye": "Sincerely"}),
        ("Hey", {"bye": "Bye"}),
        ("Greetings", {"bye": "Regards"}),
    ],
    "team": [
        (
            "sales finance marketing design support research logistics security training "
            "planning transport payroll",
            NO_FORMS,
        )
    ],
    "place": [
        ("library kitchen garden lobby studio cafeteria hall courtyard basement terrace", NO_FORMS)
    ],
    "hour": [("eight nine ten eleven noon two three four", NO_FORMS)],
    "color": [("red green blue white black yellow", NO_FORMS)],
    "day": [
        ("Monday", {"eve": "Sunday"}),
        ("Tuesday", {"eve": "Monday"}),
        ("Wednesday", {"eve": "Tuesday"}),
        ("Thursday", {"eve": "Wednesday"}),
        ("Friday", {"eve": "Thursday"}),
        ("Saturday", {"eve": "Friday"}),
        ("Sunday", {"eve": "Saturday"}),
    ],
}


def _rows(pool: str) -> list[Row]:
    return [{WORD: word, **forms} for words, forms in POOLS[pool] for word in words.split()]


EMAILS = Grammar(RULES, {pool: _rows(pool) for pool in POOLS}, start="email")
"""The grammar that all emails of the course come from."""
