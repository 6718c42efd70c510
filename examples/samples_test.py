"""What counts as lost and as repeated."""

from samples import count_samples

# Two ranks, five samples, two a step but for the last one; epoch 0 whole, epoch 1 under way.
WHOLE = ["1 0 0 3", "1 0 0 1", "1 1 0 0", "1 1 0 4", "1 2 0 2", "1 3 1 4", "1 3 1 0"]


def test_an_undisturbed_run_loses_nothing():
    count = count_samples(WHOLE, samples=5)
    assert (count.read, count.lost, count.repeated, count.steps_again) == (7, 0, 0, 0)


def test_a_step_that_was_done_again_counts_once():
    count = count_samples([*WHOLE, "2 3 1 4", "2 3 1 0", "2 4 1 1", "2 4 1 2"], samples=5)
    assert (count.read, count.lost, count.repeated, count.steps_again) == (9, 0, 0, 1)


def test_a_step_done_again_with_other_samples_is_seen():
    count = count_samples([*WHOLE, "2 2 0 4"], samples=5)
    assert (count.lost, count.repeated) == (1, 1)


def test_a_sample_read_twice_in_an_epoch_is_seen():
    assert count_samples([*WHOLE, "1 4 1 0"], samples=5).repeated == 1


def test_a_sample_of_the_open_epoch_is_missed_by_comparing_with_another_run():
    reference = count_samples(WHOLE, samples=5)
    assert reference.missing(reference) == 0
    assert count_samples([*WHOLE[:-1], "1 3 1 2"], samples=5).missing(reference) == 1
