"""Filling masks with the pieces of every family of tokenizers."""

import dataclasses

import keras
import pytest
import tokenizers
from family_files import FAMILY_FILES, write_family, write_modernbert

import kbert
from kbert.data.tokenizer_families import FAMILIES
from kbert.pipelines import FillMask
from kbert.pipelines.pieces import piece_text, word_ids

pytest.importorskip("sentencepiece")

NAMES = [*FAMILY_FILES, "modernbert"]
# M is the mask.
TEXTS = [
    "M",
    "the M of the M.",
    "The   quick\tM \n M",
    "play(M)M “M” naïve 中文M M 😀M",
    " M the",
    "👩‍🚀 e\u0301 ﬁ M½M\u00a0M\u200bM\u3000M",
    "MMM",
]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    directories = {
        name: write_family(tmp_path_factory.mktemp(name), name)
        for name in FAMILY_FILES
    }
    directories["modernbert"] = write_modernbert(
        tmp_path_factory.mktemp("modernbert")
    )
    return {
        name: kbert.Tokenizer.from_pretrained(directory)
        for name, directory in directories.items()
    }


@pytest.fixture(scope="module")
def make_fill(tiny_config):
    def make(tokenizer, **options):
        keras.utils.set_random_seed(0)
        config = dataclasses.replace(
            tiny_config,
            vocab_size=tokenizer.vocab_size,
            max_positions=128,
            num_segments=2 if tokenizer.has_segments else 0,
        )
        model = kbert.build_masked_lm(kbert.build_encoder(config))
        return FillMask(model, tokenizer, **options)

    return make


def characters_of_bytes():
    """GPT-2's table: a printable character for each byte."""
    ranges = [(33, 127), (161, 173), (174, 256)]
    table = {chr(i): i for low, high in ranges for i in range(low, high)}
    rest = [i for i in range(256) if chr(i) not in table]
    return table | {chr(256 + n): byte for n, byte in enumerate(rest)}


BYTES = characters_of_bytes()


def written(tokenizer, token):
    """A piece as it is written in a text, by the rules of its family."""
    if token in tokenizer.special_tokens.values():
        return token
    algorithm = FAMILIES[tokenizer.family].algorithm
    if algorithm == "WordPiece":
        return token.removeprefix("##")
    if algorithm == "Unigram":
        return token.replace("▁", " ")
    return bytes(BYTES[c] for c in token).decode("utf-8", errors="replace")


def places_of(text, mask_token):
    places, start = [], 0
    for part in text.split("M")[:-1]:
        start += len(part)
        places.append((start, start + len(mask_token)))
        start += len(mask_token)
    return places


@pytest.mark.parametrize("name", NAMES)
def test_a_mask_is_replaced_and_nothing_else(loaded, make_fill, name):
    tokenizer = loaded[name]
    mask_token = tokenizer.special_tokens["mask_token"]
    fill = make_fill(tokenizer, top_k=10**6, batch_size=2)
    texts = [text.replace("M", mask_token) for text in TEXTS]
    for result, template, text in zip(fill(texts), TEXTS, texts, strict=True):
        assert result["text"] == text
        places = [(mask["start"], mask["end"]) for mask in result["masks"]]
        assert places == places_of(template, mask_token)
        for mask in result["masks"]:
            tokens = {p["token"] for p in mask["predictions"]}
            assert tokens == set(tokenizer.get_vocab())
            before, after = text[: mask["start"]], text[mask["end"] :]
            for prediction in mask["predictions"]:
                piece = written(tokenizer, prediction["token"])
                if before == "" or before[-1] in " \t\n\u00a0\u3000":
                    piece = piece.removeprefix(" ")
                assert prediction["sequence"] == before + piece + after


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "template", ["the M fox", "M fox", "M", "the  M", "the\tM.", "the M M"]
)
def test_a_filled_text_has_the_token(loaded, make_fill, name, template):
    """What is filled in is tokenised to what was predicted."""
    tokenizer = loaded[name]
    mask_token = tokenizer.special_tokens["mask_token"]
    text = template.replace("M", mask_token)
    position = tokenizer(text).ids.index(tokenizer.mask_token_id)
    is_unigram = FAMILIES[tokenizer.family].algorithm == "Unigram"
    word = "do" if is_unigram else "the"
    (first, *_) = make_fill(tokenizer)(text, targets=[word])["masks"]
    (prediction,) = first["predictions"]
    filled = text.replace(mask_token, word, 1)
    assert prediction["sequence"] == filled
    if "\t" not in template and "  " not in template:  # which some keep
        assert tokenizer(filled).ids[position] == prediction["token_id"]


@pytest.mark.parametrize(
    "name, token, text",
    [
        ("bert", "##ing", "ing"),
        ("bert", "playing", "playing"),
        ("bert", "Ġx", "Ġx"),
        ("mpnet", "##ing", "ing"),
        ("mpnet", "<mask>", "<mask>"),
        ("roberta", "Ġthe", " the"),
        ("roberta", "the", "the"),
        ("roberta", "Ã", "�"),
        ("roberta", "</s>", "</s>"),
        ("modernbert", "Ġthe", " the"),
        ("modernbert", "[MASK]", "[MASK]"),
        ("albert", "▁do", " do"),
        ("albert", "(", "("),
        ("xlm-roberta", "▁do", " do"),
        ("camembert", "▁", " "),
        ("deberta-v2", "▁do", " do"),
        ("deberta-v2", "[SEP]", "[SEP]"),
    ],
)
def test_piece_text(loaded, name, token, text):
    assert loaded[name].token_to_id(token) is not None
    assert piece_text(loaded[name], token) == text


def test_piece_text_of_other_tokenizers():
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] ing @@ing".split()
    vocab = {word: index for index, word in enumerate(words)}
    model = tokenizers.models.WordPiece(
        vocab, unk_token="[UNK]", continuing_subword_prefix="@@"
    )
    tokenizer = kbert.Tokenizer(tokenizers.Tokenizer(model))
    assert piece_text(tokenizer, "@@ing") == "ing"
    # A vocabulary of words, and no decoder.
    model = tokenizers.models.WordLevel(vocab, unk_token="[UNK]")
    tokenizer = kbert.Tokenizer(tokenizers.Tokenizer(model))
    assert piece_text(tokenizer, "@@ing") == "@@ing"


@pytest.mark.parametrize(
    "name, before, word, token",
    [
        ("bert", "", "The", "the"),
        ("bert", " ", "The", "the"),
        ("bert", "y", "the", "the"),
        ("bert", "y", "##ing", "##ing"),
        ("bert", " ", "##ing", "##ing"),
        ("bert", " ", "[UNK]", "[UNK]"),
        ("roberta", "", "the", "the"),
        ("roberta", " ", "the", "Ġthe"),
        ("roberta", "\t", "the", "Ġthe"),
        ("roberta", " ", " the", "Ġthe"),
        ("roberta", " ", "Ġthe", "Ġthe"),
        ("roberta", "(", "the", "the"),
        ("roberta", "e", " the", "Ġthe"),
        ("roberta", " ", "<pad>", "<pad>"),
        ("modernbert", " ", "the", "Ġthe"),
        ("modernbert", "(", "the", "the"),
        ("albert", "", "do", "▁do"),
        ("albert", " ", "do", "▁do"),
        ("albert", " ", "▁do", "▁do"),
        ("xlm-roberta", "", "do", "▁do"),
        ("xlm-roberta", " ", "do", "▁do"),
        # Attached, it goes on, and does not begin a word.
        ("xlm-roberta", "x", "in", "in"),
        ("xlm-roberta", "x", "<unk>", "<unk>"),
        ("bert", "(", "The", "the"),
        ("xlm-roberta", "x", "▁do", "▁do"),
        ("deberta-v2", " ", "do", "▁do"),
    ],
)
def test_targets_are_taken_as_they_stand(loaded, name, before, word, token):
    (found,) = word_ids(loaded[name], [word], before)
    assert loaded[name].id_to_token(found) == token


@pytest.mark.parametrize(
    "name, before, word, pieces",
    [
        ("bert", " ", "xyzzy", ["x", "##y", "##z", "##z", "##y"]),
        ("roberta", " ", "xyzzy", ["Ġx", "y", "z", "zy"]),
        ("deberta-v2", " ", "xyzzy", ["▁", "x", "y", "z", "z", "y"]),
        # Not the end of another word.
        ("roberta", " ", "Hello", ["Ġ", "Hello"]),
        ("xlm-roberta", " ", "in", ["▁", "in"]),
        ("xlm-roberta", "", "in", ["▁", "in"]),
        # Nor here the beginning of one.
        ("xlm-roberta", "x", "do", ["▁do"]),
        ("roberta", "x", "a b", ["a", "Ġb"]),
    ],
)
def test_a_word_that_is_not_one_token_there(loaded, name, before, word, pieces):
    first = loaded[name].special_tokens["pad_token"]
    with pytest.raises(ValueError) as caught:
        word_ids(loaded[name], [first, word], before)
    assert str(caught.value) == (
        f"Each target must be one token of the vocabulary, but here this is "
        f"{pieces}. Received: targets[1]={word!r}"
    )


def test_a_word_that_is_unknown(loaded):
    for before in ("", " ", "x"):
        with pytest.raises(ValueError) as caught:
            word_ids(loaded["bert"], ["the", "Ω"], before)
        assert str(caught.value) == (
            "Each target must be one token of the vocabulary, which lacks "
            "this one. Received: targets[1]='Ω'"
        )
