# SPDX-License-Identifier: Apache-2.0
"""`./dev bench check`: the comparison with the table, and the check itself on this build."""
import importlib.util
import json
import re

import pytest
from bench_fixtures import run_bench
from conftest import ROOT, needs_root


def load(name):
    """A module of bench/, without its directory in the path: modules there have names of modules here."""
    spec = importlib.util.spec_from_file_location(f"bench_{name}", ROOT / f"bench/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


common, ratios = load("common"), load("ratios")
TABLE = ROOT / "bench/ratios.toml"


def table(path, **changes):
    """A table of one processor, p, in which every ratio is 10, but for the changes; None: not there."""
    rows = {"processor": '"p"', "system": '"s"', **{name: "[10, 10]" for name in ratios.RATIOS}, **changes}
    lines = [f"{name} = {value}" for name, value in rows.items() if value is not None]
    path.write_text('build = "b"\n[[machine]]\n' + "\n".join(lines) + "\n")
    return path


def samples_of(**ratio):
    """Samples of which the least values have these ratios, and the medians as well; ratio: a number, or one of each."""
    samples = {}
    for name, (above, below, _) in ratios.RATIOS.items():
        least, median = ratio[name] if isinstance(ratio.get(name), tuple) else (ratio.get(name, 10),) * 2
        unit = samples.setdefault(below, [1, 2, 2])
        samples[above] = [least * unit[0], median * unit[1], median * unit[1]]
    return samples


def compare(path, **ratio):
    return {one.name: one for one in ratios.compare(ratios.Table.read(path).expected_on("p"), samples_of(**ratio))}


def test_a_ratio_above_the_factor_fails(tmp_path):
    found = compare(table(tmp_path / "t"), live_run=17, guard=15, scrub=16)
    assert [name for name, one in found.items() if one.failed] == ["live_run", "scrub"]
    message = found["live_run"].message()
    assert message.startswith("FAILED: live_run: expected 10, measured 17, factor 1.70: "), message
    assert found["guard"].message() is None and found["cold_run"].message() is None


def test_noise_in_one_of_both_statistics_does_not_fail(tmp_path):
    found = compare(table(tmp_path / "t"), live_run=(10, 40), cold_run=(17, 15), scrub=(17, 18))
    assert [name for name, one in found.items() if one.failed] == ["scrub"]
    found = compare(table(tmp_path / "t"), live_run=(5, 12), cold_run=(5, 6))
    assert [name for name, one in found.items() if one.is_faster] == ["cold_run"]


def test_each_statistic_has_its_own_expected_value(tmp_path):
    path = table(tmp_path / "t", guard="[10, 8]")
    assert not compare(path, guard=(17, 10))["guard"].failed
    assert compare(path, guard=(10, 8))["guard"].message() is None
    found = compare(path, guard=(17, 13))["guard"]
    assert found.failed and found.message().startswith("FAILED: guard: expected 8, measured 13, "), found.message()


def test_a_ratio_far_below_is_a_note(tmp_path):
    found = compare(table(tmp_path / "t"), live_run=6, guard=7)
    assert found["live_run"].message().startswith("note: live_run: expected 10, measured 6, factor 0.60: ")
    assert "--update" in found["live_run"].message()
    assert not any(one.failed for one in found.values()) and found["guard"].message() is None


def test_ratios_are_of_the_named_measurements():
    samples = {name: [1, 1] for row in ratios.RATIOS.values() for name in row[:2]}
    assert all(pair == [1, 1] for pair in ratios.ratios_of(samples).values())
    assert ratios.ratios_of({**samples, "live": [6, 9, 15], "pair": [3, 2, 4]})["live_run"] == [3, 3]
    assert ratios.ratios_of({**samples, "live": [6, 9, 15], "pair": [6, 2, 6]})["live_run"] == [3, 1.5]


@pytest.mark.parametrize("change, told", [
    ({"scrub": None}, "the ratio 'scrub' is missing"),
    ({"scrubs": [3, 3]}, "there is no ratio 'scrubs'"),
    ({"scrub": '["fast", 1]'}, "the ratio 'scrub' must be two numbers above 0, not ['fast', 1]"),
    ({"scrub": 3}, "the ratio 'scrub' must be two numbers above 0, not 3"),
    ({"scrub": [3]}, "must be two numbers above 0, not [3]"),
    ({"scrub": [3, 3, 3]}, "must be two numbers above 0"),
    ({"scrub": [0, 1]}, "must be two numbers above 0, not [0, 1]"),
    ({"scrub": [1, -1.5]}, "must be two numbers above 0"),
    ({"scrub": "[1, nan]"}, "must be two numbers above 0"),
    ({"scrub": "[inf, 1]"}, "must be two numbers above 0"),
    ({"scrub": "[1, true]"}, "must be two numbers above 0, not [1, True]"),
    ({"scrub": "= 3"}, "line"),
    ({"processor": None}, "'processor' of a machine must be a text"),
    ({"system": 3}, "'system' of a machine must be a text"),
])
def test_wrong_tables_are_refused(tmp_path, change, told):
    path = table(tmp_path / "t.toml", **change)
    with pytest.raises(ratios.TableError) as why:
        ratios.Table.read(path)
    assert str(why.value).startswith(f"{path}: ") and told in str(why.value)


@pytest.mark.parametrize("text, told", [
    ("", "'build' must be a text"),
    ("build = 3\n", "'build' must be a text"),
    ('build = "b"\n', "there is no table [[machine]]"),
    ('build = "b"\nmachine = "m"\n', "there is no table [[machine]]"),
    ('build = "b"\nmachine = []\n', "there is no table [[machine]]"),
    ('build = "b"\nmachine = [3]\n', "each 'machine' must be a table"),
])
def test_tables_without_a_part_are_refused(tmp_path, text, told):
    (tmp_path / "t").write_text(text)
    with pytest.raises(ratios.TableError, match=re.escape(told)):
        ratios.Table.read(tmp_path / "t")
    with pytest.raises(ratios.TableError, match="No such file"):
        ratios.Table.read(tmp_path / "nothing")


def machine(processor, **changes):
    rows = {**{name: 10.0 for name in ratios.RATIOS}, **changes}
    return ratios.Machine(processor, "s", {name: [value, value + 1] for name, value in rows.items()})


def test_each_processor_has_its_own_ratios():
    made = ratios.Table("b", [machine("p", scrub=70.0), machine("q", guard=3.0)])
    assert made.expected_on("p")["scrub"] == [70, 71] and made.expected_on("q")["guard"] == [3, 4]
    assert made.expected_on("q")["scrub"] == [10, 11]


def test_an_unknown_processor_is_compared_with_the_largest_ratios():
    made = ratios.Table("b", [machine("p", scrub=70.0), machine("q", guard=3.0, live_run=12.0)])
    made.machines[1].expected["cold_run"] = [9, 30]
    expected = made.expected_on("another")
    assert [expected[name] for name in ("scrub", "guard", "live_run", "cold_run")] == [
        [70, 71], [10, 11], [12, 13], [10, 30]]
    assert made.find("another") is None


def test_ratios_that_are_put_replace_those_of_the_same_processor():
    made = ratios.Table("b", [machine("p"), machine("q")])
    made.put(machine("p", scrub=2.0))
    made.put(machine("r"))
    assert [m.processor for m in made.machines] == ["p", "q", "r"] and made.expected_on("p")["scrub"] == [2, 3]


def test_a_processor_that_is_there_twice_is_refused(tmp_path):
    (tmp_path / "t").write_text(ratios.Table("b", [machine("p"), machine("p")]).text())
    with pytest.raises(ratios.TableError, match="two machines with the processor 'p'"):
        ratios.Table.read(tmp_path / "t")


def test_a_table_reads_what_it_writes(tmp_path):
    expected = {name: [1.25 * (i + 1), 2.5 * (i + 1)] for i, name in enumerate(ratios.RATIOS)}
    (tmp_path / "t").write_text(ratios.Table("b", [ratios.Machine('a "p"', "s", expected), machine("q")]).text())
    read = ratios.Table.read(tmp_path / "t")
    assert (read.build, [(m.processor, m.system) for m in read.machines]) == ("b", [('a "p"', "s"), ("q", "s")])
    for name, pair in read.expected_on('a "p"').items():
        assert pair == pytest.approx(expected[name], rel=0.005)


def test_the_committed_table_is_written_by_update():
    read = ratios.Table.read(TABLE)
    assert read.text() == TABLE.read_text()


# ---- the check itself ----


@pytest.fixture
def own_table(tmp_path):
    """The committed table, with other ratios for every processor."""
    def make(**changes):
        read = ratios.Table.read(TABLE)
        for each in read.machines:
            each.expected.update({name: [value, value] for name, value in changes.items()})
        (tmp_path / "own.toml").write_text(read.text())
        return tmp_path / "own.toml"
    return make


def known(path):
    """The table, with ratios of this machine's processor."""
    read = ratios.Table.read(path)
    read.put(ratios.Machine(common.processor_facts()[1], "s", read.expected_on(common.processor_facts()[1])))
    path.write_text(read.text())
    return path


@needs_root
def test_nothing_became_much_slower(tmp_path, run_bench):
    status, output = run_bench("check", "--json", tmp_path / "report.json")
    assert status == 0, output
    report = json.loads((tmp_path / "report.json").read_text())
    assert set(report["ratios"]) == set(ratios.RATIOS)
    for name, (above, below, _) in ratios.RATIOS.items():
        least = min(report["samples"][above]), min(report["samples"][below])
        assert min(least) > 0 and report["ratios"][name]["measured"][0] == pytest.approx(least[0] / least[1])


SLOWER = {**{name: 1e6 for name in ratios.RATIOS}, "http_live_run": 1e-6}


@needs_root
def test_a_slower_ratio_ends_the_check_with_status_1(own_table, run_bench):
    path = known(own_table(**SLOWER))
    status, output = run_bench("check", "--rounds", "1", "--table", path)
    assert status == 1 and output.count("more rounds of: http_live_run\n") == 3, output
    assert "\nFAILED: http_live_run: expected " in output and output.count("FAILED") == 1
    assert output.count("\nnote: ") == len(ratios.RATIOS) - 1


@needs_root
def test_an_unknown_processor_is_noted_and_can_fail(tmp_path, run_bench):
    (tmp_path / "other.toml").write_text(ratios.Table(ratios.Table.read(TABLE).build, [machine("p", **SLOWER)]).text())
    status, output = run_bench("check", "--rounds", "1", "--table", tmp_path / "other.toml")
    assert status == 1 and "\nFAILED: http_live_run: expected " in output, output
    assert output.count("\nnote: ") == 1
    assert f"has no ratios of this processor ({common.processor_facts()[1]})" in output


@needs_root
def test_update_writes_the_ratios_of_this_processor(own_table, tmp_path, run_bench):
    for path, others in ((tmp_path / "new.toml", []), (own_table(scrub=3.0), ratios.Table.read(TABLE).machines)):
        status, output = run_bench("check", "--update", "--rounds", "1", "--table", path)
        assert status == 0 and f"{path.name}: written" in output, output
        read, own = ratios.Table.read(path), common.processor_facts()[1]
        assert read.build == ratios.Table.read(TABLE).build and read.find(own).expected["scrub"] != [3, 3]
        for other in others:
            if other.processor != own:
                assert read.find(other.processor).expected == {**other.expected, "scrub": [3, 3]}


@needs_root
def test_a_table_for_another_build_is_refused(own_table, run_bench):
    path = own_table()
    path.write_text(path.read_text().replace('build = "', 'build = "other '))
    status, output = run_bench("check", "--table", path)
    assert status == 1 and f"{path} is for a build of type 'other " in output, output
    path.write_text("build =")
    status, output = run_bench("check", "--table", path)
    assert status == 1 and output.startswith(f"bench: {path}: ") and "Traceback" not in output, output
