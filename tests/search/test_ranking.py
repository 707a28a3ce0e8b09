from __future__ import annotations

from headrace.search.ranking import fused, telling, words_of, words_query


def test_what_both_rankings_have_comes_first_and_ties_go_to_the_newest() -> None:
    assert [number for number, _ in fused([1, 2], [2, 3])] == [2, 1, 3]
    assert [number for number, _ in fused([1], [2])] == [2, 1]


def test_words_are_as_the_index_has_them_and_quoted() -> None:
    assert words_of('Bäckerei "GRÜN" grün NEAR(') == ["backerei", "grun", "near"]
    assert words_query(["a", "or"]) == '"a" OR "or"'


def test_common_words_are_left_out_beside_rare_ones_and_alone_they_are_not_ranked() -> None:
    counts = {"taxi": 40, "lisbon": 700, "2026": 90_000}
    assert telling(["2026", "taxi", "lisbon"], counts) == (["taxi", "lisbon"], True)
    assert telling(["2026"], counts) == (["2026"], False)
    assert telling(["unknown", "2026"], counts) == (["unknown"], True)
