"""The other families' tokenizers on tiny vocabularies, by their own rules."""

import copy
import json
import pickle

import pytest
import tokenizers
from family_files import (
    FAMILY_FILES,
    LINES,
    train_bytes,
    write_family,
    write_modernbert,
)

from kbert.data.tokenizer import Tokenizer
from kbert.data.tokenizer_families import FAMILIES

sentencepiece = pytest.importorskip("sentencepiece")

SEGMENTS = {"bert", "distilbert", "electra", "albert", "deberta-v2"}
TEXTS = [*LINES[:5], "", " ", "a  b\tc\nd", "x <mask>. [MASK]"]
families = pytest.mark.parametrize("family", FAMILY_FILES)


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return {
        family: write_family(tmp_path_factory.mktemp(family), family)
        for family in FAMILY_FILES
    }


def assert_equal(left, right):
    assert left.get_vocab() == right.get_vocab()
    assert left.special_tokens == right.special_tokens
    assert left.special_token_ids == right.special_token_ids
    assert (left.family, left.max_length) == (right.family, right.max_length)
    for one, two in zip(
        left.encode_batch(TEXTS, TEXTS[::-1]),
        right.encode_batch(TEXTS, TEXTS[::-1]),
        strict=True,
    ):
        assert (one.ids, one.type_ids) == (two.ids, two.type_ids)
        assert (one.offsets, one.word_ids) == (two.offsets, two.word_ids)


@families
def test_template(directories, family):
    tokenizer = Tokenizer.from_pretrained(directories[family])
    assert tokenizer.family == ("bert" if family == "electra" else family)
    cls, sep = (
        tokenizer.special_tokens[name] for name in ("cls_token", "sep_token")
    )
    bare = tokenizer.encode("the", add_special_tokens=False).tokens
    assert bare
    assert tokenizer("the").tokens == [cls, *bare, sep]
    pair = tokenizer("the", "the")
    if family in SEGMENTS:
        assert pair.tokens == [cls, *bare, sep, *bare, sep]
        assert pair.type_ids == [0] * (2 + len(bare)) + [1] * (1 + len(bare))
    else:
        assert pair.tokens == [cls, *bare, sep, sep, *bare, sep]
        assert set(pair.type_ids) == {0}
    assert tokenizer.num_special_tokens(True) == len(pair) - 2 * len(bare)
    assert tokenizer("").tokens == [cls, sep]
    assert tokenizer.cls_token_id == tokenizer("").ids[0]


@families
def test_save_pickle_and_copy(directories, family, tmp_path):
    tokenizer = Tokenizer.from_pretrained(directories[family])
    tokenizer.max_length = 33
    tokenizer.save(tmp_path)
    assert_equal(tokenizer, Tokenizer.from_pretrained(tmp_path))
    assert_equal(tokenizer, pickle.loads(pickle.dumps(tokenizer)))
    assert_equal(tokenizer, copy.deepcopy(tokenizer))


@pytest.mark.parametrize("family", ["xlm-roberta", "camembert"])
def test_fairseq_ids(directories, family):
    path = directories[family] / "sentencepiece.bpe.model"
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    tokenizer = Tokenizer.from_pretrained(directories[family])
    shift = {"xlm-roberta": 1, "camembert": 4}[family]
    for text in LINES[:2]:
        ids = [i + shift for i in model.encode(text)]
        encoding = tokenizer.encode(text, add_special_tokens=False)
        assert encoding.ids == ids
    assert tokenizer.vocab_size == len(model) + shift + 1
    assert tokenizer.mask_token_id == tokenizer.vocab_size - 1
    first = ["<s>", "<pad>", "</s>", "<unk>"]
    if family == "xlm-roberta":
        assert [tokenizer.id_to_token(i) for i in range(4)] == first
    else:
        assert (tokenizer.cls_token_id, tokenizer.sep_token_id) == (5, 6)
        assert (tokenizer.pad_token_id, tokenizer.unk_token_id) == (1, 3)


def test_deberta_is_sentencepiece(directories):
    path = directories["deberta-v2"] / "spm.model"
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    tokenizer = Tokenizer.from_pretrained(directories["deberta-v2"])
    for text in [*LINES[:5], "  the  ﬁne ½ ", "the\tfilm\nfox"]:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        assert encoding.ids == model.encode(text)
    assert tokenizer.mask_token_id == len(model)


def test_albert_switches(directories, tmp_path):
    albert = Tokenizer.from_pretrained(directories["albert"])
    assert albert("``The ÉA''").ids == albert('"the ea"').ids
    cased = Tokenizer.from_pretrained(directories["albert"], lowercase=False)
    assert cased("The").ids != albert("The").ids == cased("the").ids
    # The brackets are pieces of their own, and ordinary ones.
    bracket = albert.token_to_id("(")
    assert bracket in albert("quick(brown").ids
    assert bracket not in albert.special_token_ids


def test_bytes(directories):
    tokenizer = Tokenizer.from_pretrained(directories["roberta"])
    spaced = Tokenizer.from_pretrained(
        directories["roberta"], add_prefix_space=True
    )
    for text in [*LINES, "\x00\x7f\u2028\ud7ff 😀", "  a\n\n b "]:
        ids = tokenizer(text).ids
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids) == text
        assert spaced(text).ids == tokenizer(f" {text}").ids or text[0] == " "
    # Offsets leave out the space.
    encoding = tokenizer(" the fox")
    start, end = encoding.offsets[-2]
    assert " the fox"[start:end].strip() == " the fox"[start:end]


@families
def test_mask_in_the_text(directories, family):
    tokenizer = Tokenizer.from_pretrained(directories[family])
    mask = tokenizer.special_tokens["mask_token"]
    ids = tokenizer(f"the {mask} the").ids
    assert ids.count(tokenizer.mask_token_id) == 1
    # Nothing is left of the space before it.
    assert ids.index(tokenizer.mask_token_id) == len(tokenizer("the").ids) - 1


def test_modernbert(tmp_path):
    tokenizer = Tokenizer.from_pretrained(write_modernbert(tmp_path))
    assert tokenizer.family == "modernbert"
    assert tokenizer.max_length == 8192
    assert len(tokenizer(LINES[0])) > 5
    assert len(tokenizer("")) == 2
    assert set(tokenizer("the", "fox").type_ids) == {0}
    tokenizer.save(tmp_path / "saved")
    assert_equal(tokenizer, Tokenizer.from_pretrained(tmp_path / "saved"))
    spaced = Tokenizer.from_pretrained(tmp_path, add_prefix_space=True)
    assert spaced("the").ids == tokenizer(" the").ids


# What tells the family.


@pytest.mark.parametrize(
    "family", ["bert", "mpnet", "roberta", "albert", "deberta-v2"]
)
def test_the_file_alone(directories, family, tmp_path):
    for path in directories[family].iterdir():
        if path.name != "config.json":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    alone = Tokenizer.from_pretrained(tmp_path)
    assert_equal(alone, Tokenizer.from_pretrained(directories[family]))


@pytest.mark.parametrize("family", ["mpnet", "roberta", "albert", "camembert"])
def test_tokenizer_json_alone(directories, family, tmp_path):
    tokenizer = Tokenizer.from_pretrained(directories[family])
    tokenizer.save(tmp_path)
    for path in tmp_path.iterdir():
        if path.name != "tokenizer.json":
            path.unlink()
    again = Tokenizer.from_pretrained(tmp_path)
    assert again.special_tokens == tokenizer.special_tokens
    assert again("the", "fox").ids == tokenizer("the", "fox").ids


def test_tokenizer_of_another_family(directories, tmp_path):
    """Multilingual sentence encoders: BERT's model, XLM-RoBERTa's pieces."""
    Tokenizer.from_pretrained(directories["xlm-roberta"]).save(tmp_path)
    config = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    tokenizer = Tokenizer.from_pretrained(tmp_path)
    assert tokenizer.family == "xlm-roberta"
    assert tokenizer.pad_token_id == 1


@pytest.mark.parametrize(
    "name", ["special_tokens_map.json", "tokenizer_config.json"]
)
def test_special_tokens_of_a_file(directories, name, tmp_path):
    backend = train_bytes(["<a>", "<b>", "<c>", "<d>", "<e>"])
    backend.save(str(tmp_path / "tokenizer.json"))
    named = {
        "pad_token": "<a>",
        "unk_token": {"content": "<b>", "lstrip": False},
        "cls_token": "<c>",
        "sep_token": "<d>",
        "mask_token": {"content": "<e>", "lstrip": True},
    }
    (tmp_path / name).write_text(json.dumps(named))
    tokenizer = Tokenizer.from_pretrained(tmp_path)
    assert tokenizer.mask_token_id == tokenizer.token_to_id("<e>")
    assert tokenizer.unk_token_id == tokenizer.token_to_id("<b>")


@pytest.mark.parametrize("suffix", ["", "Fast"])
def test_class_of_the_config(directories, suffix, tmp_path):
    for family in ("xlm-roberta", "camembert"):
        path = directories[family] / "sentencepiece.bpe.model"
        (tmp_path / path.name).write_bytes(path.read_bytes())
        config = {"tokenizer_class": FAMILIES[family].tokenizer_class + suffix}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        assert Tokenizer.from_pretrained(tmp_path).family == family


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
@pytest.mark.parametrize("legacy", [False, True])
def test_added_tokens(directories, family, legacy, tmp_path):
    for path in directories[family].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    before = Tokenizer.from_pretrained(tmp_path)
    size, cls = before.vocab_size, before.special_tokens["cls_token"]

    def write(index):
        if legacy:
            name, content = "added_tokens.json", {"<new>": index}
        else:
            tokens = {
                str(index): {"content": "<new>", "lstrip": True},
                str(before.cls_token_id): {"content": cls, "special": True},
            }
            name = "tokenizer_config.json"
            content = {"added_tokens_decoder": tokens}
        (tmp_path / name).write_text(json.dumps(content))

    write(size)
    tokenizer = Tokenizer.from_pretrained(tmp_path)
    assert tokenizer.vocab_size == size + 1
    assert tokenizer("the <new>").ids.count(size) == 1
    assert tokenizer("the fox").ids == before("the fox").ids
    assert size not in tokenizer.special_token_ids
    tokenizer.save(tmp_path / "saved")
    assert_equal(tokenizer, Tokenizer.from_pretrained(tmp_path / "saved"))
    write(size + 1)
    expect(ValueError, tmp_path, f"the id {size},", str(size + 1))


# What cannot be read.


def expect(error, directory, *parts):
    with pytest.raises(error) as caught:
        Tokenizer.from_pretrained(directory)
    for part in (*parts, "Received: "):
        assert part in str(caught.value)


def test_family_is_not_told(directories, tmp_path):
    path = directories["camembert"] / "sentencepiece.bpe.model"
    (tmp_path / path.name).write_bytes(path.read_bytes())
    expect(ValueError, tmp_path, "sentencepiece.bpe.model alone", "None")
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    expect(ValueError, tmp_path, "'t5'")
    (tmp_path / "config.json").unlink()
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"tokenizer_class": "T5Tokenizer"}')
    expect(ValueError, tmp_path, "'T5Tokenizer'")
    config.write_text('{"tokenizer_class": "RobertaTokenizer"}')
    expect(FileNotFoundError, tmp_path, "tokenizer.json or a vocab.json")


def test_modernbert_without_its_file(directories, tmp_path):
    for path in directories["roberta"].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "config.json").write_text('{"model_type": "modernbert"}')
    expect(FileNotFoundError, tmp_path, "a tokenizer.json there")


@pytest.mark.parametrize("keep", [0, 1, 100, 0.3, 0.9, 0.999])
def test_cut_sentencepiece_file(directories, keep, tmp_path):
    content = (directories["albert"] / "spiece.model").read_bytes()
    size = keep if keep >= 1 or not keep else int(len(content) * keep)
    (tmp_path / "spiece.model").write_bytes(content[:size])
    expect(ValueError, tmp_path, "SentencePiece", "spiece.model'")


def test_file_cut_between_two_pieces(directories, tmp_path):
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString((directories["albert"] / "spiece.model").read_bytes())
    proto.ClearField("trainer_spec")
    proto.ClearField("normalizer_spec")
    (tmp_path / "spiece.model").write_bytes(proto.SerializeToString())
    expect(ValueError, tmp_path, "0 of the 2 parts")


def test_other_sentencepiece_models(directories, tmp_path):
    (tmp_path / "spiece.model").write_bytes(b"no protobuf at all")
    expect(ValueError, tmp_path, "Expected a SentencePiece model")
    # Without [CLS] and [SEP].
    path = directories["camembert"] / "sentencepiece.bpe.model"
    (tmp_path / "spiece.model").write_bytes(path.read_bytes())
    expect(ValueError, tmp_path, "['<pad>', '[CLS]', '[MASK]', '[SEP]']")
    from family_files import ALBERT, write_sentencepiece

    write_sentencepiece(tmp_path / "spiece.model", model_type="bpe", **ALBERT)
    expect(ValueError, tmp_path, "type 1 (unigram)", "model_type=2")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("merges.txt", "qqq h\n", "lacks ['qqq', 'qqqh']"),
        ("merges.txt", "Ġ t\nh\n", "line 2 is 'h'"),
        ("merges.txt", "Ġ t\nh e r\n", "line 2 is 'h e r'"),
        ("vocab.json", "[]", "Expected a JSON object"),
        ("vocab.json", '{"a": 0', "Expected JSON"),
        ("vocab.json", "{}", "tokens in it"),
        ("vocab.json", '{"a": 0}', "['<pad>', '<unk>', '<s>'"),
        ("vocab.json", '{"a": 1}', "without gaps"),
    ],
)
def test_damaged_byte_files(directories, name, content, message, tmp_path):
    for path in directories["roberta"].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / name).write_text(content, encoding="utf-8")
    expect(ValueError, tmp_path, message)
    (tmp_path / "vocab.json").write_text('{"a": "0"}')
    expect(TypeError, tmp_path, "integers")
    (tmp_path / "merges.txt").unlink()
    expect(FileNotFoundError, tmp_path, "merges.txt")


def test_merges_that_are_no_text(directories, tmp_path):
    for path in directories["roberta"].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "merges.txt").write_bytes(b"\xc4\xa0 t\n\xff\xfe\n")
    expect(ValueError, tmp_path, "UTF-8")


def test_switches_that_are_not_there(directories, tmp_path):
    for family, option in (
        ("roberta", {"lowercase": True}),
        ("albert", {"add_prefix_space": True}),
        ("bert", {"add_prefix_space": False}),
    ):
        Tokenizer.from_pretrained(directories[family]).save(tmp_path / family)
        for directory in (directories[family], tmp_path / family):
            with pytest.raises(ValueError, match="Received: {'"):
                Tokenizer.from_pretrained(directory, **option)


def test_no_such_family():
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    with pytest.raises(ValueError, match="Received: family='gpt2'"):
        Tokenizer(backend, family="gpt2")
