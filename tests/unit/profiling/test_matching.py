"""Layers of two engines matched by nodes: every layer in exactly one group, the order of rows without effect."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trt_lab.profiling.matching import LayerKey, match_layers


def keys(*layers: str) -> list[LayerKey]:
    return [LayerKey(tuple(nodes), name) for name, _, nodes in (layer.partition(":") for layer in layers)]


def test_equal_sets_match_wherever_they_stand() -> None:
    found = match_layers(keys("x:ab", "y:c"), keys("q:c", "r:ba"))
    assert [(match.a, match.b, match.equal) for match in found] == [((0,), (1,), True), ((1,), (0,), True)]


def test_what_was_fused_otherwise_is_one_group() -> None:
    found = match_layers(keys("1:a", "2:b", "3:c", "4:z"), keys("1:ab", "2:c"))
    assert [(match.a, match.b, match.keys, match.equal) for match in found] == [
        ((0, 1), (0,), ("a", "b"), False),
        ((2,), (1,), ("c",), True),
        ((3,), (), ("z",), False),
    ]


def test_layers_with_the_same_nodes_are_told_apart_by_name() -> None:
    found = match_layers(keys("mean_myl0_3:n", "norm_myl0_4:n"), keys("norm_myl1_8:n", "mean_myl1_9:n"))
    assert [(match.a, match.b) for match in found] == [((0,), (1,)), ((1,), (0,))]
    together = match_layers(keys("mean:n", "norm:n"), keys("all:n"))
    assert [(match.a, match.b, match.equal) for match in together] == [((0, 1), (0,), False)]


LAYERS = st.lists(
    st.builds(
        LayerKey,
        st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=4, unique=True).map(tuple),
        st.sampled_from(["p", "q", "r"]),
    ),
    max_size=10,
)


@given(LAYERS, LAYERS, st.randoms(use_true_random=False))
def test_each_layer_is_in_one_group_in_any_order(a: list[LayerKey], b: list[LayerKey], random) -> None:
    found = match_layers(a, b)
    assert sorted(i for match in found for i in match.a) == list(range(len(a)))
    assert sorted(i for match in found for i in match.b) == list(range(len(b)))
    for match in found:
        nodes = {key for side, places in ((a, match.a), (b, match.b)) for i in places for key in side[i].keys}
        assert nodes == set(match.keys)

    shuffled = list(b)
    random.shuffle(shuffled)

    def groups(others: list[LayerKey]) -> list[tuple[list, list]]:
        return sorted(
            (sorted(a[i] for i in match.a), sorted(others[i] for i in match.b)) for match in match_layers(a, others)
        )

    assert groups(shuffled) == groups(b)
