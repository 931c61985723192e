import pytest

from kbert.metrics import squad_scores
from kbert.metrics.squad import normalize_answer


@pytest.mark.parametrize(
    "text, expected",
    [
        ("The  Cat's\u00a0hat!", "cats hat"),
        ("an a the", ""),
        ("A.B. the-end", "ab theend"),
        ("—«The»—", "—«»—".replace("«»", "« »")),
        ("北京 大学。", "北京 大学。"),
        ("ÉCOLE\tan", "école"),
        ("theatre a1", "theatre a1"),
        ("...", ""),
        ("", ""),
    ],
)
def test_normalisation(text, expected):
    assert normalize_answer(text) == expected


def one(prediction, *golds, version="2.0"):
    scores = squad_scores({"q": prediction}, {"q": golds}, version=version)
    return scores["exact"], scores["f1"]


def test_closed_forms():
    assert one("the red car", "Red car!") == (100.0, 100.0)
    # 1 of 2 words right, 1 of 3 gold words found.
    assert one("red bus", "big red car") == (0.0, pytest.approx(40.0))
    # The best of several, for each number on its own; words count twice.
    assert one("red red", "red", "red red blue") == (0.0, pytest.approx(80.0))
    assert one("", "car") == (0.0, 0.0)
    assert one("") == (100.0, 100.0)
    assert one("car") == (0.0, 0.0)
    assert one("the") == (100.0, 100.0)


def test_golds_of_which_nothing_is_left():
    assert one("a", "The", "vitamin A") == (0.0, 0.0)
    assert one("a", "The") == (100.0, 100.0)
    # Version 1.1 keeps such a gold, and has no F1 for it.
    assert one("a", "The", "vitamin A", version="1.1") == (100.0, 0.0)


def test_parts_and_thresholds():
    predictions = {"1": "red car", "2": "blue", "3": "green", "4": ""}
    references = {"1": ["red car"], "2": ["dark blue"], "3": [], "4": []}
    doubt = {"1": 0.1, "2": 0.3, "3": 0.8, "4": 0.6, "other": 0.0}
    scores = squad_scores(predictions, references, doubt, 0.7)
    blue = 200 / 3
    assert scores == pytest.approx(
        {
            "exact": 75.0,
            "f1": (300 + blue) / 4,
            "total": 4,
            "HasAns_exact": 50.0,
            "HasAns_f1": (100 + blue) / 2,
            "HasAns_total": 2,
            "NoAns_exact": 100.0,
            "NoAns_f1": 100.0,
            "NoAns_total": 2,
            # No answer everywhere: 2. Then "1" at 0.1: 3; "2" adds to F1.
            "best_exact": 75.0,
            "best_exact_thresh": 0.1,
            "best_f1": (300 + blue) / 4,
            "best_f1_thresh": 0.3,
        }
    )
    plain = squad_scores(predictions, references)
    assert plain["NoAns_exact"] == 50.0 and "best_f1" not in plain
    only = squad_scores({"1": "x"}, {"1": ["x"]})
    assert "HasAns_f1" in only and "NoAns_f1" not in only


def test_what_the_original_script_says():
    """transformers 4.46.3's copy of evaluate-v2.0.py, on these answers."""
    words = [
        "the",
        "A",
        "cat's",
        "—",
        "北京 大学",
        "U.S.",
        "an-a",
        "e\u0301",
        "",
    ]
    count = len(words)
    predictions, references, doubt = {}, {}, {}
    for i in range(60):
        id_ = str(i)
        at = [(i * k + k) % count for k in (1, 2, 4, 5, 7)]
        predictions[id_] = f"{words[at[0]]} {words[at[1]]}".strip()
        golds = [f"{words[at[2]]}  {words[at[1]]}", words[at[3]], words[at[0]]]
        references[id_] = golds[: i % 4]
        doubt[id_] = (i * 37 % 60) / 60
    scores = squad_scores(predictions, references, doubt, 0.8)
    assert scores == pytest.approx(ORIGINAL, abs=1e-9)


ORIGINAL = {
    "exact": 28.333333333333332,
    "f1": 45.611111111111114,
    "total": 60,
    "HasAns_exact": 31.11111111111111,
    "HasAns_f1": 54.14814814814815,
    "HasAns_total": 45,
    "NoAns_exact": 20.0,
    "NoAns_f1": 20.0,
    "NoAns_total": 15,
    "best_exact": 30.0,
    "best_exact_thresh": 0.85,
    "best_f1": 52.16666666666669,
    "best_f1_thresh": 0.9833333333333333,
}


def test_bad_input():
    with pytest.raises(ValueError, match="prediction. Received: none for 1 of"):
        squad_scores({}, {"1": ["x"]})
    with pytest.raises(ValueError, match="probability. Received: .*'2'"):
        squad_scores({"1": "", "2": ""}, {"1": [], "2": []}, {"1": 0.0})
    with pytest.raises(ValueError, match="no question. Received: {}"):
        squad_scores({"1": ""}, {})
    with pytest.raises(TypeError, match="Received: 'car' for '1'"):
        squad_scores({"1": "car"}, {"1": "car"})
    with pytest.raises(TypeError, match="Received: None for '1'"):
        squad_scores({"1": None}, {"1": ["car"]})
    with pytest.raises(ValueError, match="Received: version='2'"):
        squad_scores({"1": ""}, {"1": []}, version="2")
    with pytest.raises(ValueError, match="Received: none for '1'"):
        squad_scores({"1": ""}, {"1": []}, version="1.1")
    with pytest.raises(ValueError, match="Received: 1 of them"):
        squad_scores({"1": ""}, {"1": ["x"]}, {"1": 0.0}, version="1.1")
