import pathlib
from collections import Counter

import pytest

from kbert.data import read_conll

WNUT = pathlib.Path(__file__).parents[3] / "shared" / "data" / "wnut17"

CONLL_2003 = """\
-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
. . O O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER
"""
CONLLU = """\
# newdoc id = 1
# sent_id = 1
# text = Vámonos al mar
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\tVamos\tir\tVERB\tv\tMood=Imp\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tp\t_\t1\tobj\t_\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\ts\t_\t5\tcase\t_\t_
4\tel\tel\tDET\td\t_\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\tn\t_\t1\tobl\t_\t_

# sent_id = 2
1\t#\t#\tSYM\ts\t_\t0\troot\t_\t_
1.1\tes\tser\tVERB\tv\t_\t_\t_\t0:exroot\t_
2\t10 000\t10000\tNUM\tn\t_\t1\tnummod\t_\t_

# the end
"""


@pytest.fixture
def read(tmp_path):
    def write_and_read(text, **options):
        path = tmp_path / "file.conll"
        data = text if isinstance(text, bytes) else text.encode()
        path.write_bytes(data)
        return read_conll(path, **options)

    return write_and_read


@pytest.mark.skipif(not WNUT.is_dir(), reason="the real data is not there")
@pytest.mark.parametrize(
    "name, sentences, tokens, entities",
    [
        ("wnut17train.conll", 3394, 62730, (660, 548, 264, 221, 142, 140)),
        ("emerging.dev.conll", 1009, 15733, None),
        (
            "emerging.test.annotated",
            1287,
            23394,
            (429, 150, 165, 66, 127, 142),
        ),
    ],
)
def test_official_counts_of_wnut17(name, sentences, tokens, entities):
    words, tags = read_conll(WNUT / name)
    assert len(words) == len(tags) == sentences
    assert [len(row) for row in words] == [len(row) for row in tags]
    assert sum(map(len, words)) == tokens
    counts = Counter(tag[2:] for row in tags for tag in row if tag[0] == "B")
    types = "person location group corporation product creative-work".split()
    if entities:
        assert counts == dict(zip(types, entities, strict=True))
    assert set(counts) == set(types)


def test_conll_2003(read):
    words, tags = read(CONLL_2003)
    assert words == [["EU", "rejects", "."], ["Peter", "Blackburn"]]
    assert tags == [["B-ORG", "O", "O"], ["B-PER", "I-PER"]]
    assert read(CONLL_2003, column=1)[1][0] == ["NNP", "VBZ", "."]
    assert read(CONLL_2003, column=-2)[1][1] == ["B-NP", "I-NP"]
    # A document that starts without a blank line, and in a tab file.
    glued = "-DOCSTART- O\nEU B-ORG\n"
    assert read(glued) == ([["EU"]], [["B-ORG"]])
    assert read(glued.replace(" ", "\t")) == ([["EU"]], [["B-ORG"]])


@pytest.mark.parametrize("column", [3, "upos", "UPOS"])
def test_conllu(read, column):
    words, tags = read(CONLLU, column=column)
    assert words == [["Vamos", "nos", "a", "el", "mar"], ["#", "10 000"]]
    assert tags == [["VERB", "PRON", "ADP", "DET", "NOUN"], ["SYM", "NUM"]]


def test_conllu_columns_that_are_asked_for(read):
    words, tags = read(CONLLU, column="deprel", word_column="lemma")
    assert words[0] == ["ir", "nosotros", "a", "el", "mar"]
    assert tags[0] == ["root", "obj", "case", "det", "obl"]
    # Another format of numbered words, with five columns.
    five = "1\tAda\tB-PER\t-\tx\n2-3\tdel\tO\t-\tx\n2\tde\tO\t-\tx\n"
    assert read(five, column=2, word_column=1) == (
        [["Ada", "de"]],
        [["B-PER", "O"]],
    )


def test_what_looks_like_a_comment(read):
    # Two columns as every word has, so hashes are words here.
    for gap in "\t", " ":
        text = "#sun\tO\n#\tO\n\n#\tO\nAda\tB-PER\n".replace("\t", gap)
        words, _ = read(text)
        assert words == [["#sun", "#"], ["#", "Ada"]]
    comments = "# about 1 thing\n#x\nAda B-PER\n# O\n#end of it\n\n# one more\n"
    assert read(comments) == ([["Ada", "#"]], [["B-PER", "O"]])
    # CoNLL-2012, where sentences differ in their columns.
    ontonotes = (
        "#begin document (bc/1); part 000\n"
        "bc/1 0 0 Ada NNP * *\nbc/1 0 1 # NN * *\n\n"
        "bc/1 0 0 # NN *\nbc/1 0 1 4 CD *\n\n#end document\n"
    )
    assert read(ontonotes, column=4, word_column=3) == (
        [["Ada", "#"], ["#", "4"]],
        [["NNP", "NN"], ["NN", "CD"]],
    )
    with pytest.raises(ValueError, match=r"Line 2 has 1 columns.*Received:"):
        read("Ada B-PER\n#lost\nleft O\n")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("blank", ["", "\t", "  ", " \t \t", "\u3000"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_ends_blanks_and_marks(read, end, blank, mark):
    text = mark + end.join(
        [blank, "Ada\tB-PER", "left\tO", blank, blank, "So\tO"]
    )
    assert read(text) == ([["Ada", "left"], ["So"]], [["B-PER", "O"], ["O"]])


def test_words_with_white_space(read):
    # Spaces of every kind in a tab file, no end of a line inside a word.
    words, tags = read("New York\tB-LOC\na\u2028b\x0cc\tO\n\tO\n")
    assert words == [["New York", "a\u2028b\x0cc", ""]]
    assert tags == [["B-LOC", "O", "O"]]
    words, _ = read("10\u00a0000  \t O \nAda\tO\n")
    assert words == [["10\u00a0000  ", "Ada"]]
    # Runs of spaces between columns; a no-break space is in a word.
    text = "  10\u00a0000   O \nAda \t  B-PER\n"
    assert read(text) == ([["10\u00a0000", "Ada"]], [["O", "B-PER"]])


def test_encodings(read):
    data = "été O\n\ncañón B-LOC\n".encode("latin-1")
    assert read(data, encoding="latin-1")[0] == [["été"], ["cañón"]]
    with pytest.raises(ValueError, match=r"Line 3 is not utf-8.*Received: "):
        read(b"ete O\n\nca\xf1on B-LOC\n")
    assert read("ete O\n".encode("utf-16"), encoding="utf-16")[0] == [["ete"]]


@pytest.mark.parametrize(
    "text, options, message",
    [
        ("", {}, "no words"),
        ("\n\t\n", {}, "no words"),
        ("-DOCSTART- -X- O\n\n", {}, "no words"),
        ("a O\n\nb O\nNew York O\n", {}, "Line 4 has 3 columns, but line 3"),
        ("a\tO\nb O\n", {}, "Line 2 has 1 columns, but line 1"),
        ("a O\n\nword\n", {}, "Line 3 has its words and its tags in the same"),
        ("a O\n", {"column": 2}, "Line 1 has 2 columns"),
        ("a O\n", {"column": -3}, "Line 1 has 2 columns"),
        ("a O\n", {"column": "upos"}, "Line 1 has 2 columns"),
        ("a\t\n", {}, "Line 1 has an empty tag"),
        ("a O\n", {"column": "pos"}, "one of"),
    ],
)
def test_errors(read, text, options, message):
    with pytest.raises(ValueError) as caught:
        read(text, **options)
    assert message in str(caught.value)
    assert "Received: " in str(caught.value)


def test_wrong_kinds_of_column(read):
    for column in (1.0, True, None):
        with pytest.raises(TypeError, match="Received: column="):
            read("a O\n", column=column)
    with pytest.raises(FileNotFoundError):
        read_conll("/no/such/file")
