"""Words of names and addresses put right where the engine misread a letter: `Jaian` is Jalan, `HARDWAKE` is HARDWARE.

A word is changed only when it is no known word and exactly one known word is one letter away, so that proper names stay
as they are. The lists are our own: address words, states and towns of Malaysia and Singapore, and words of trade.
What was printed stays in the field's `raw_text`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from headrace.extraction.rows import fold

_PLACES = """
jalan jln lorong lebuh lebuhraya persiaran lingkaran lintang solok tingkat taman tmn bandar kampung kampong kawasan
perindustrian industri perusahaan pusat perniagaan dagangan seksyen section mukim daerah bukit batu simpang medan
niaga desa kompleks complex plaza wisma menara bangunan building tower block blok level floor ground basement unit
lot suite mall megamall shopping centre center square avenue street road drive park garden gardens heights village
city villa residence resort station terminal office wilayah persekutuan darul ehsan takzim ridzuan aman iman makmur
naim selangor johor bahru baharu pahang perak kedah kelantan terengganu melaka malacca penang pinang pulau perlis
sabah sarawak negeri sembilan labuan putrajaya malaysia singapore kuala lumpur petaling jaya shah alam subang klang
kelang puchong cheras kepong ampang setapak sentul bangsar damansara segambut selayang gombak caves rawang kajang
semenyih bangi dengkil sepang cyberjaya nilai seremban balakong serdang kembangan seri sri sungai buloh besi wangi
kelana sunway kota kemuning ijok bestari langat hulu puncak kapar meru banting ipoh taiping teluk intan manjung
lumut kampar tapah bidor ayer hitam air panas keroh pasir gudang masai skudai senai kulai pontian pahat muar segamat
kluang mersing tebrau tampoi larkin permas austin nusajaya iskandar puteri gelang patah mutiara rini universiti
kuantan temerloh bentong raub genting highlands cameron kuching sibu miri bintulu kinabalu sandakan tawau alor setar
petani kulim butterworth georgetown george bayan lepas mertajam nibong tebal kangar arau bharu tanah merah mas
dungun kemaman raya perdana permai indah mewah maju jasa sentosa damai harmoni bahagia sejati murni mahkota utama
utara selatan timur barat tengah tinggi besar baru lama kecil dalam luar tasik laut pantai sultan sultanah raja
tengku tunku tun datuk dato abdul ismail azlan rahman razak ibrahim mahmood syed bunga melur melati mawar cempaka
kenanga anggerik tanjung tanjong angsa helang rajawali merpati dinar kancil harimau gajah temenggung bendahara
laksamana setia gemilang gembilang impian berkeley maluri jejaka pudu imbi bintang chulan kenny hills hartamas kiara
solaris mont petronas tropicana kinrara
"""
_TRADES = """
sdn bhd berhad enterprise enterprises trading hardware restaurant restaurants restoran kedai pasar pasaraya raya
mini market supermarket hypermarket stationery stationers stationer bookstore books bakery bakeries confectionery
cafe coffee kopitiam bistro food foods seafood frozen health beauty pharmacy farmasi clinic klinik electrical
electronics furniture fashion boutique gift gifts gallery motor motors auto services service station petrol
petroleum marketing holdings holding industries industry resources resource realties realty retail stores store shop
company corporation management distribution distributors supplies supply suppliers supplier perniagaan syarikat
runcit papan makanan minuman sayur house kitchen garden pizza burger chicken noodle noodles handicraft tailoring
tailor printing print
expert computer computers digital technology mobile telecommunication optical jewellery watch watches sports toys
education engineering construction plastic paper packaging machinery cash carry wholesale speed mart family guardian
watsons popular mydin giant aeon tesco gardenia
"""
# Other words of receipts that stand one letter beside a known one.
_STRANGERS = """
black boots towel power point goods curry masak borong segar sinar laman bookstores university bawang chopping marker
smores compleks borneo brand panda manis merak wangsa label timun petal mental salon batik parking mining malam kajian
total metal local court count cover lower clear moto
"""
PLACES = frozenset(_PLACES.split())
TRADES = frozenset(_TRADES.split())
KNOWN = PLACES | TRADES
# Where two known words are as near as each other, one of these is meant.
_USUAL = {"jalan", "taman", "bandar", "selangor", "kuala", "lumpur", "johor", "malaysia", "kawasan", "perindustrian"}
STRANGERS = frozenset(_STRANGERS.split())
_HOME = ("MY", "SG")
# Short words are put right behind the word they belong to.
_PAIRS = (
    *(("alam", before) for before in ("shah", "setia", "puncak")),
    *(("jaya", before) for before in ("subang", "petaling", "permas", "bestari", "kelana")),
    *(("bahru", before) for before in ("johor", "kota")),
    ("besi", "sungai"),
    ("caves", "batu"),
)
# Letters that worn type or a small scan makes alike; no other slip is put right.
_ALIKE = tuple(
    map(
        frozenset,
        ("iltjf", "ouqdc", "mnhw", "krhx", "bph", "ceo", "ei", "es", "gsy", "uvy", "fpe", "bg", "hl", "gcs", "ft"),
    )
)
_TOKEN = re.compile(r"[^\s,.()\[\]/&;+*#-]*[^\s,.()\[\]/&;+*#:-]")
# "LUT 1504", "Eot 3", "Loi P.T. 2811" at the beginning: the lot. "Lor" is a lane, "Hot" a word.
_LOT = re.compile(r"(?i)^(?:[eic1|]ot|l[ucdq0]t|lo[pifjl])(?=\s+(?:\d|P\.\s?T\b))")
# Legal forms, whose letters look like digits: "Sp. z o.0.", "S/8".
_POLISH_COMPANY = re.compile(r"(?i)\b(sp[.,]?\s?z\s?)[o0][.,]\s?[o0]\b")
_LOCAL_COMPANY = re.compile(r"\bS/[08]$")
_DIGIT_LIKE = str.maketrans({"0": "o", "1": "l", "5": "s", "8": "b", "!": "i", "|": "l", "@": "a"})


def _index() -> dict[str, tuple[str, ...]]:
    """The known words of five letters and more by what is left of them when a letter goes."""
    out: dict[str, set[str]] = {}
    for word in KNOWN:
        if len(word) >= 5:
            for key in {word[:i] + word[i + 1 :] for i in range(len(word))} | {word}:
                out.setdefault(key, set()).add(word)
    return {key: tuple(sorted(words)) for key, words in out.items()}


_NEAR = _index()


def _one_apart(a: str, b: str) -> bool:
    """One letter differs, and the two are easily taken for each other, or `a` has no letter there."""
    if len(a) != len(b):
        short, long = sorted((a, b), key=len)
        lost = any(long[:i] + long[i + 1 :] == short for i in range(len(long) - 1))  # the last may be a plural
        return lost and len(b) >= 8 and len(long) - len(short) == 1
    differ = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
    if len(differ) != 1:
        return False
    x, y = differ[0]
    return not x.isalnum() or any(x in group and y in group for group in _ALIKE)


@lru_cache(maxsize=4096)
def known_word(word: str) -> str | None:
    """The known word that a folded, unknown one stands for, or None where that is not certain."""
    letters = word.translate(_DIGIT_LIKE)
    if letters in KNOWN or letters in STRANGERS:
        return letters if letters in KNOWN else None
    if len(word) >= 4 and sum(c.isdigit() for c in word) == 1:
        # A digit in a word is a misread letter, whatever its shape: "0ATU".
        fits = {
            k for k in KNOWN if len(k) == len(word) and all(a == b or b.isdigit() for a, b in zip(k, word, strict=True))
        }
        return fits.pop() if len(fits) == 1 else None
    if len(letters) < 5 or sum(c.isdigit() for c in word) > 1:
        return None
    near: set[str] = set()
    for key in {letters[:i] + letters[i + 1 :] for i in range(len(letters))} | {letters}:
        near.update(w for w in _NEAR.get(key, ()) if _one_apart(letters, w))
    usual = near & _USUAL
    return (usual or near).pop() if len(usual or near) == 1 else None


def _in_case_of(word: str, model: str) -> str:
    letters = [c for c in model if c.isalpha()]
    if sum(c.isupper() for c in letters) * 2 > len(letters):
        return word.upper()
    return word.capitalize() if model[:1].isupper() or not model[:1].isalpha() else word


def reads_local(countries: Mapping[str, tuple[float, str]]) -> bool:
    """True for receipts of the countries whose words are listed here."""
    best = next(iter(countries), None)
    return best in _HOME and countries[best][0] >= 0.8


def put_right(text: str, *, local: bool) -> str:
    """The text with misread letters put right; `local` says that the words listed here are to be expected in it."""
    # Digits between letters and letters between digits, in any country: "29O", "7/1l8B".
    text = re.sub(r"(?<=\d)[oO](?![^\W\d_])", "0", text)
    text = re.sub(r"(?<=\d)[lI|](?=\d|\b(?![^\W\d_]))", "1", text)
    text = _POLISH_COMPANY.sub(r"\1o.o", text)
    if not local:
        return text
    text = _LOCAL_COMPANY.sub("S/B", text)
    text = _LOT.sub(lambda m: "LOT" if m[0].isupper() else "Lot", text)
    before = ""

    def one(m: re.Match[str]) -> str:
        nonlocal before
        token = m[0]
        folded = fold(token)
        previous, before = before, folded
        plain = token if folded == token.casefold() else _without_accents(token)
        if folded in KNOWN or len(folded) < (3 if folded[:1].isalnum() else 5):
            return plain
        for second, first in _PAIRS:
            if previous == first and len(folded) == len(second) and _one_apart(folded, second):
                before = second
                return _in_case_of(second, token)
        word = known_word(folded)
        if word is None:
            return plain
        before = word
        return _in_case_of(word, token)

    return _TOKEN.sub(one, text)


def _without_accents(word: str) -> str:
    """Malay and English have no accents but é; what else stands there is a speck on the paper."""
    return "".join(c if c in "éÉ" or not c.isalpha() else (fold(c).upper() if c.isupper() else fold(c)) for c in word)
