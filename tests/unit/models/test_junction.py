"""Junction trees: what every one of them has to be, and a few worked by hand."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openprior.errors import WorkloadError
from openprior.models.graphical.junction import JunctionTree, Structure
from openprior.schema.domain import Domain

Marginals = list[tuple[str, ...]]


@st.composite
def marginals_of(draw: st.DrawFn) -> tuple[Domain, Marginals]:
    sizes = draw(st.lists(st.sampled_from([1, 2, 2, 3, 5, 11, 40]), min_size=1, max_size=9))
    domain = Domain({f"x{i}": s for i, s in enumerate(sizes)})
    some = st.lists(st.sampled_from(domain.attributes), min_size=1, max_size=4, unique=True)
    return domain, [tuple(m) for m in draw(st.lists(some, max_size=12))]


@st.composite
def trees(draw: st.DrawFn) -> tuple[Domain, Marginals]:
    """A random tree over attributes of random sizes; its edges, shuffled and either way round.

    Three values at least: for two pairs of two values each, 4 + 4 cells, a triple of 8 cells is as good.
    """
    sizes = draw(st.lists(st.integers(3, 9), min_size=2, max_size=12))
    domain = Domain({f"x{i}": s for i, s in enumerate(sizes)})
    edges = [(f"x{draw(st.integers(0, i - 1))}", f"x{i}") for i in range(1, len(sizes))]
    return domain, draw(st.permutations([e[::-1] if draw(st.booleans()) else e for e in edges]))


def tree_of(domain: Domain, marginals: Marginals) -> JunctionTree:
    return JunctionTree(domain, Structure(domain, marginals).cliques)


def total(domain: Domain, cliques: tuple[tuple[str, ...], ...]) -> int:
    return sum(domain.size(c) for c in cliques)


@settings(max_examples=200, deadline=None)
@given(marginals_of())
def test_cliques_hold_every_marginal_and_none_holds_another(case: tuple[Domain, Marginals]) -> None:
    domain, marginals = case
    structure = Structure(domain, marginals)
    cliques = [set(c) for c in structure.cliques]
    for marginal in [*marginals, *((a,) for a in domain)]:
        assert any(set(marginal) <= c for c in cliques)
    assert not any(a <= b for a, b in itertools.permutations(cliques, 2))
    assert structure.cells == total(domain, structure.cliques)
    assert structure.megabytes == structure.cells * 8 / 2**20
    for clique in structure.cliques:
        assert clique == tuple(a for a in domain if a in clique)


@settings(max_examples=200, deadline=None)
@given(marginals_of())
def test_a_tree_has_the_running_intersection_property(case: tuple[Domain, Marginals]) -> None:
    domain, marginals = case
    tree = tree_of(domain, marginals)
    assert set(tree.cliques) == set(Structure(domain, marginals).cliques)
    for child, (parent, separator) in enumerate(zip(tree.parents, tree.separators, strict=True)):
        assert parent == -1 or parent > child
        shared = set(tree.cliques[child]) & set(tree.cliques[parent]) if parent >= 0 else set()
        assert separator == tuple(a for a in domain if a in shared)
        assert (parent >= 0) == bool(separator)
    for attribute in domain:
        # Cliques that have it, connected by edges that have it: as a tree, one edge fewer than cliques.
        nodes = sum(attribute in c for c in tree.cliques)
        edges = sum(attribute in s for s in tree.separators)
        assert nodes - edges == 1


@settings(max_examples=100, deadline=None)
@given(marginals_of())
def test_a_tree_knows_its_size_its_width_and_who_has_a_marginal(case: tuple[Domain, Marginals]) -> None:
    domain, marginals = case
    tree = tree_of(domain, marginals)
    assert tree.cells == total(domain, tree.cliques)
    assert tree.treewidth == max(len(c) for c in tree.cliques) - 1
    for wanted in itertools.chain.from_iterable(
        itertools.combinations(domain.attributes, k) for k in (1, 2, 3)
    ):
        host = tree.host(wanted)
        able = [c for c in tree.cliques if set(wanted) <= set(c)]
        assert (host is None) == (not able)
        if host is not None:
            assert tree.cliques[host] in able
            assert domain.size(tree.cliques[host]) == min(domain.size(c) for c in able)


@settings(max_examples=100, deadline=None)
@given(marginals_of())
def test_a_prediction_is_the_size_that_comes(case: tuple[Domain, Marginals]) -> None:
    """Along any sequence of additions, and without touching what is there."""
    domain, marginals = case
    structure = Structure(domain)
    assert structure.cells == sum(domain.shape)
    for k, marginal in enumerate(marginals):
        before = structure.cliques
        predicted = structure.cells_with(marginal)
        later = [structure.cells_with(m) for m in marginals]
        grown = structure.with_marginal(marginal)
        assert predicted == grown.cells == total(domain, grown.cliques) == later[k]
        assert structure.megabytes_with(marginal) == grown.megabytes
        assert structure.cliques == before
        structure = grown
        assert all(any(set(m) <= set(c) for c in structure.cliques) for m in marginals[: k + 1])
    assert {a for c in structure.cliques for a in c} == set(domain)


@settings(max_examples=100, deadline=None)
@given(marginals_of(), st.data())
def test_a_marginal_inside_a_clique_changes_nothing(
    case: tuple[Domain, Marginals], data: st.DataObject
) -> None:
    domain, marginals = case
    structure = Structure(domain, marginals)
    clique = data.draw(st.sampled_from(structure.cliques))
    inside = data.draw(st.lists(st.sampled_from(clique), min_size=1, unique=True))
    assert structure.cells_with(inside) == structure.cells
    assert structure.with_marginal(inside).cliques == structure.cliques


@settings(max_examples=100, deadline=None)
@given(trees())
def test_a_tree_of_pairs_has_those_pairs_as_cliques(case: tuple[Domain, Marginals]) -> None:
    domain, edges = case
    structure = Structure(domain, edges)
    assert {frozenset(c) for c in structure.cliques} == {frozenset(e) for e in edges}
    tree = JunctionTree(domain, structure.cliques)
    assert tree.treewidth == 1
    assert sum(p == -1 for p in tree.parents) == 1


@settings(max_examples=100, deadline=None)
@given(marginals_of())
def test_a_chordal_set_needs_no_more_than_itself(case: tuple[Domain, Marginals]) -> None:
    """Whatever the order and the spelling: a structure made from the cliques of another is not larger."""
    domain, marginals = case
    structure = Structure(domain, marginals)
    backwards = [c[::-1] for c in structure.cliques[::-1]]
    assert Structure(domain, backwards).cells <= structure.cells


def test_a_cycle_gets_its_cheapest_chord() -> None:
    """a-b-c-d-a with sizes 2, 10, 3, 10: the chord ac makes abc and acd, 60 + 60 cells; bd would make 200 + 300."""
    domain = Domain({"a": 2, "b": 10, "c": 3, "d": 10})
    structure = Structure(domain, [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")])
    assert set(structure.cliques) == {("a", "b", "c"), ("a", "c", "d")}
    assert structure.cells == 120
    opened = Structure(domain, [("a", "b"), ("b", "c"), ("c", "d")])
    assert (opened.cells, opened.cells_with(("a", "d"))) == (20 + 30 + 30, 120)
    tree = JunctionTree(domain, structure.cliques)
    assert tree.separators == (("a", "c"), ())
    assert tree.treewidth == 2


def test_a_cycle_of_five_gets_its_two_cheapest_chords() -> None:
    """Both from a, which is small: abc, acd and ade. Of the five ways to cut a ring of five this is the cheapest."""
    domain = Domain({"a": 2, "b": 11, "c": 10, "d": 12, "e": 13})
    ring = ["ab", "bc", "cd", "de", "ae"]
    structure = Structure(domain, [tuple(m) for m in ring])
    assert set(structure.cliques) == {("a", "b", "c"), ("a", "c", "d"), ("a", "d", "e")}
    assert structure.cells == 220 + 240 + 312
    fans = [[domain.size(hub + e) for e in ring if hub not in e] for hub in "abcde"]
    assert structure.cells == min(map(sum, fans))


def test_no_marginals_leave_every_attribute_alone() -> None:
    domain = Domain({"a": 4, "b": 1, "c": 7})
    structure = Structure(domain)
    assert set(structure.cliques) == {("a",), ("b",), ("c",)}
    tree = JunctionTree(domain, structure.cliques)
    assert (tree.parents, tree.separators, tree.treewidth, tree.cells) == ((-1,) * 3, ((),) * 3, 0, 12)


def test_sizes_beyond_64_bits_do_not_wrap() -> None:
    domain = Domain({f"x{i}": 2000 for i in range(10)})
    assert Structure(domain).cells_with(domain.attributes) == pytest.approx(2000**10)
    assert Structure(domain, [domain.attributes]).cells == pytest.approx(2000**10)


def test_each_part_is_rooted_at_its_largest_clique() -> None:
    domain = Domain({"a": 2, "b": 2, "c": 9, "d": 3, "e": 5})
    tree = tree_of(domain, [("a", "b"), ("b", "c"), ("d", "e")])
    roots = {c for c, p in zip(tree.cliques, tree.parents, strict=True) if p == -1}
    assert roots == {("b", "c"), ("d", "e")}


@pytest.mark.parametrize("bad", [("a", "zip"), (), ("a", "a")])
def test_marginals_that_cannot_be_are_refused(bad: tuple[str, ...]) -> None:
    structure = Structure(Domain({"a": 2, "b": 3}))
    for use in (structure.cells_with, structure.with_marginal, lambda m: Structure(structure.domain, [m])):
        with pytest.raises(WorkloadError, match=r"zip|empty|twice"):
            use(bad)
