"""Planted mistakes in either engine, each with the scenario of the contract suite that must fail because of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.contract import (
    test_asynchronous,
    test_barging_mutex,
    test_cost,
    test_counter,
    test_errors,
    test_every_kind,
    test_fifo_rwlock,
    test_scheduling,
    test_spinlock,
    test_spinning_rwlock,
)
from tests.contract.scene import BARGING_MUTEX, FIFO_MUTEX, FIFO_RWLOCK, SPINLOCK, SPINNING_RWLOCK

Scenario = Callable[..., None]

COMPILED = "compiled.py"
REFERENCE = "reference/"


@dataclass(frozen=True)
class Mutant:
    """A mistake: `changes` to the text of a file below `fssim/engine`, each (old, new), old occurring exactly once."""

    name: str
    file: str
    changes: tuple[tuple[str, str], ...]
    killed_by: partial[None]

    @property
    def engine(self) -> str:
        return str(self.killed_by.keywords["engine"])

    @property
    def scenario(self) -> str:
        """Name of the scenario with its arguments."""
        arguments = ", ".join(str(getattr(value, "name", value)) for value in self.killed_by.keywords.values())
        return f"{self.killed_by.func.__name__}[{arguments}]"


def in_compiled(name: str, *changes: tuple[str, str], by: Scenario, **arguments: object) -> Mutant:
    return Mutant(name, COMPILED, changes, partial(by, engine="compiled", **arguments))


def in_reference(name: str, file: str, *changes: tuple[str, str], by: Scenario, **arguments: object) -> Mutant:
    return Mutant(name, REFERENCE + file, changes, partial(by, engine="reference", **arguments))


COMPILED_MUTANTS = (
    # rwlock "fifo"
    in_compiled(
        "one reader is woken instead of the run",
        ("        while reader_is_first(a.threads, a.locks, number):\n", "        if True:\n"),
        by=test_fifo_rwlock.test_a_run_of_readers_is_admitted_together_and_no_later_one,
    ),
    in_compiled(
        "readers overtake a queued writer",
        (
            "return lock[READER_HEAD] < 0 and lock[WRITER_HEAD] < 0 and (mode",
            "return (mode == SHARED or lock[WRITER_HEAD] < 0) and (mode",
        ),
        by=test_fifo_rwlock.test_no_reader_overtakes_a_queued_writer,
    ),
    in_compiled(
        "a try gets past queued waiters",
        (
            "if can_take(a.locks, number, mode):\n                        take(",
            "if locks[number, WRITER] < 0:\n                        take(",
        ),
        by=test_fifo_rwlock.test_no_try_gets_past_a_queued_writer,
    ),
    in_compiled(
        "a demote wakes the writer too",
        ("elif a.locks[number, WRITER_HEAD] >= 0 and a.locks[number, READERS] == 0:", "else:"),
        by=test_fifo_rwlock.test_a_demote_before_a_leading_writer_wakes_nobody,
    ),
    in_compiled(
        "the release of one reader counts as that of all",
        ("        lock[READERS] -= 1\n", "        lock[READERS] = 0\n"),
        by=test_fifo_rwlock.test_a_release_by_one_reader_wakes_nobody_while_others_hold,
        kind=FIFO_RWLOCK,
        granted=300,
    ),
    in_compiled(
        "the shared hold after a demote counts from the acquire",
        (
            "a.held[thread, 2 * i] = number * 4 + SHARED\n                a.held[thread, 2 * i + 1] = now\n",
            "a.held[thread, 2 * i] = number * 4 + SHARED\n",
        ),
        by=test_fifo_rwlock.test_a_demote_wakes_only_the_leading_readers_and_keeps_writers_out,
    ),
    # rwlock "spinning"
    in_compiled(
        "a reader's release wakes a writer although other readers hold",
        ("if lock[WRITER] >= 0 or lock[READERS] > 0:\n        return", "if lock[WRITER] >= 0:\n        return"),
        by=test_fifo_rwlock.test_a_release_by_one_reader_wakes_nobody_while_others_hold,
        kind=SPINNING_RWLOCK,
        granted=410,
    ),
    in_compiled(
        "the hand-off flag is never set by a writer that starves",
        ("locks[number, HANDOFF] = 1\n", "locks[number, HANDOFF] = 0\n"),
        by=test_spinning_rwlock.test_hand_off_after_4_ms_ends_the_starvation_of_a_waiting_writer,
    ),
    in_compiled(
        "spinners go before a reader that starves",
        ("if reader_first and now - a.threads[", "if False and now - a.threads["),
        by=test_spinning_rwlock.test_a_reader_that_has_waited_over_4_ms_goes_before_the_spinners,
        released=4_000_011,
        reader_is_served=True,
    ),
    in_compiled(
        "a reader batch has no limit",
        ("while granted < READER_BATCH and a.locks[", "while a.locks["),
        by=test_spinning_rwlock.test_readers_anywhere_in_the_wait_list_are_granted_together_but_at_most_256,
    ),
    # mutex "barging" and what it shares with the spinning rwlock
    in_compiled(
        "a barging mutex is handed to the sleeper",
        (
            "        wake_writer_once(a, now, number)\n    spinners = lock[SPINNERS]\n",
            "        sleeper = lock[WRITER_HEAD]\n"
            "        lock[WRITER_HEAD] = a.threads[sleeper, NEXT]\n"
            "        grant(a, now, sleeper, number, EXCLUSIVE)\n"
            "        wake(a, now, sleeper, a.control[WAKEUP_NS], GRANTED)\n"
            "    spinners = lock[SPINNERS]\n",
        ),
        by=test_every_kind.test_a_newcomer_steals_a_free_lock_from_a_sleeper_that_is_on_its_way,
        kind=BARGING_MUTEX,
    ),
    in_compiled(
        "the spinner is drawn from another thread's stream",
        ("next_draw(a.threads, a.streams, releaser)", "next_draw(a.threads, a.streams, lock[SPINNER_HEAD])"),
        by=test_barging_mutex.test_which_spinner_gets_the_mutex_is_drawn_from_the_releasers_stream,
        seed=1,
    ),
    in_compiled(
        "a spinner gives up its processor",
        ("turn = SPIN\n", "turn = BLOCK\n"),
        by=test_every_kind.test_waiters_keep_their_cpu_busy_if_they_spin_and_leave_it_to_others_if_not,
        kind=BARGING_MUTEX,
    ),
    in_compiled(
        "spinners spin on when the owner sleeps",
        ("owner_stops_running(a, now, thread)\n            give_cpu(", "give_cpu("),
        by=test_every_kind.test_spinners_go_to_sleep_when_the_owner_does,
        kind=SPINNING_RWLOCK,
    ),
    in_compiled(
        "spinners spin on when the owner is preempted",
        ("owner_stops_running(a, now, thread)\n                join_ready_queue(", "join_ready_queue("),
        by=test_every_kind.test_spinners_go_to_sleep_when_the_owner_is_preempted,
        kind=BARGING_MUTEX,
    ),
    in_compiled(
        "a sleeper is woken again before it has run",
        ("a.threads[writer, WOKEN] = 1\n", "a.threads[writer, WOKEN] = 0\n"),
        by=test_every_kind.test_a_sleeper_is_woken_only_once_until_it_has_run,
        kind=BARGING_MUTEX,
    ),
    # every lock
    in_compiled(
        "an uncontended acquire goes round the event queue",
        (
            "                    take(a, now, thread, number, mode)\n"
            "                    pc += INSTRUCTION\n"
            "                    continue\n",
            "                    take(a, now, thread, number, mode)\n"
            "                    threads[thread, STEP] = AFTER_CPU\n"
            "                    turn = KEEP\n"
            "                    break\n",
        ),
        by=test_every_kind.test_a_free_lock_costs_no_event_and_no_time,
        kind=FIFO_MUTEX,
    ),
    in_compiled(
        "a queue is walked to its end when a thread joins it",
        (
            "        threads[lock[tail_column], NEXT] = thread\n",
            "        last = lock[head_column]\n"
            "        while threads[last, NEXT] >= 0:\n"
            "            last = threads[last, NEXT]\n"
            "        threads[last, NEXT] = thread\n",
        ),
        by=test_cost.test_work_of_the_engine_a_grant_does_not_grow_with_the_waiters,
        kind=FIFO_MUTEX,
        owner="yield cpu(1000)",
        waiter=test_cost.WORKER,
    ),
    in_compiled(
        "the first touch of a cache line costs a transfer",
        ("if before < 0 or before == thread:", "if before == thread:"),
        by=test_every_kind.test_a_lock_whose_line_is_elsewhere_is_fetched_first_one_at_a_time,
        kind=FIFO_MUTEX,
    ),
    # counters
    in_compiled(
        "a woken waiter does not look at the count again",
        (
            "if kind == COUNTER:\n                count = locks[number, COUNT]\n",
            "if kind == COUNTER:\n                count = 0\n",
        ),
        by=test_counter.test_a_woken_waiter_looks_again_and_waits_again_if_the_count_has_risen,
    ),
    in_compiled(
        "only the first waiter of a counter is woken",
        ("                        while waiter >= 0:\n", "                        if waiter >= 0:\n"),
        by=test_counter.test_waiters_are_woken_in_order_of_arrival_when_the_count_reaches_zero,
    ),
    # events, processors, device
    in_compiled(
        "wake-ups go before timers of the same instant",
        ("control[RING_COUNT] > 0 and (control[HEAP_SIZE] == 0 or a.heap[0, 0] > now)", "control[RING_COUNT] > 0"),
        by=test_scheduling.test_timers_go_before_wakeups_that_come_due_at_the_same_instant,
    ),
    in_compiled(
        "a zero delay goes to the heap",
        ("if delay > 0:\n        push(", "if delay >= 0:\n        push("),
        by=test_scheduling.test_an_event_without_delay_waits_for_those_scheduled_before_it,
    ),
    in_compiled(
        "the ready queue is last come first served",
        ("threads[thread, READY_NEXT] = -1\n", "threads[thread, READY_NEXT] = control[READY_HEAD]\n"),
        (
            "    if control[READY_HEAD] < 0:\n        control[READY_HEAD] = thread\n",
            "    if True:\n        control[READY_HEAD] = thread\n",
        ),
        by=test_scheduling.test_threads_start_in_order_of_number_and_the_ready_queue_is_first_come_first_served,
    ),
    in_compiled(
        "nobody is ever preempted",
        ("timeslice_ns > 0\n", "timeslice_ns < 0\n"),
        by=test_scheduling.test_a_thread_is_preempted_when_its_time_slice_is_over_and_another_waits,
    ),
    in_compiled(
        "the holder of a spinlock is preempted",
        ("                and threads[thread, ATOMIC] == 0\n", ""),
        by=test_spinlock.test_the_holder_is_not_preempted_and_is_so_again_after_the_release,
    ),
    in_compiled(
        "the wake-up latency is drawn from another thread's stream",
        (
            "latency += exponential(a.table, next_draw(a.threads, a.streams, thread), spread)",
            "latency += exponential(a.table, next_draw(a.threads, a.streams, thread - 1), spread)",
        ),
        by=test_scheduling.test_the_latency_of_a_wakeup_is_drawn_from_the_stream_of_the_thread_that_is_woken,
        seed=1,
    ),
    in_compiled(
        "the device wakes before the slot is given on",
        (
            "    head = control[DEVICE_HEAD]\n",
            "    complete_request(a, now, request)\n    head = control[DEVICE_HEAD]\n",
        ),
        (
            "        level(a.resources, now, SLOTS, NOTHING)\n    complete_request(a, now, request)\n",
            "        level(a.resources, now, SLOTS, NOTHING)\n",
        ),
        by=test_scheduling.test_a_completion_gives_its_slot_on_before_it_wakes_its_thread,
    ),
    # ends
    in_compiled(
        "a deadlock is reported as finished",
        ("status = DEADLOCK if control[LIVE] > 0 else FINISHED", "status = FINISHED"),
        by=test_errors.test_deadlock_of_two_locks_in_opposite_order,
        kind=FIFO_MUTEX,
    ),
    in_compiled(
        "a lock held at exit is not reported",
        ("if threads[thread, HELD] > 0:", "if False:"),
        by=test_errors.test_a_lock_that_is_held_at_exit,
        kind=SPINLOCK,
    ),
    in_compiled(
        "a thread may acquire what it holds",
        ("elif find_held(a.threads, a.held, thread, number) >= 0:", "elif False:"),
        by=test_errors.test_acquire_of_a_lock_that_is_held_already,
        kind=FIFO_RWLOCK,
    ),
)

COMPILED_MUTANTS += (
    # queues and spaces
    in_compiled(
        "an item is kept although somebody waits",
        ("    waits = a.locks[number, READER_HEAD] >= 0\n", "    waits = False\n"),
        by=test_asynchronous.test_an_item_goes_to_who_has_waited_longest_and_is_not_taken_by_who_comes_before_it_runs,
    ),
    in_compiled(
        "who waits for a queue is served last come first served",
        (
            "                    enqueue(a.threads, a.locks, number, READER_HEAD, READER_TAIL, thread)\n"
            "                    category = IN_WAIT + use_row(a.locks, number, SHARED)\n"
            "                    turn = BLOCK\n"
            "                    break\n"
            "                registers[base + code[pc + 1]] = take_item(",
            "                    threads[thread, NEXT] = locks[number, READER_HEAD]\n"
            "                    locks[number, READER_HEAD] = thread\n"
            "                    category = IN_WAIT + use_row(a.locks, number, SHARED)\n"
            "                    turn = BLOCK\n"
            "                    break\n"
            "                registers[base + code[pc + 1]] = take_item(",
        ),
        by=test_asynchronous.test_an_item_goes_to_who_has_waited_longest_and_is_not_taken_by_who_comes_before_it_runs,
    ),
    in_compiled(
        "a give wakes only one",
        ("    while space[READER_HEAD] >= 0 and a.threads[", "    if space[READER_HEAD] >= 0 and a.threads["),
        by=test_asynchronous.test_a_give_grants_to_all_whose_turn_has_come_and_who_fit,
    ),
    in_compiled(
        "a take overtakes those who wait",
        ("if locks[number, READER_HEAD] >= 0 or units > locks[number, COUNT]:", "if units > locks[number, COUNT]:"),
        by=test_asynchronous.test_nobody_takes_past_those_who_wait_although_enough_is_free,
    ),
    in_compiled(
        "granted units are still free",
        ("        space[COUNT] -= a.threads[space[READER_HEAD], WANTED]\n", ""),
        by=test_asynchronous.test_what_is_granted_is_taken_before_the_woken_thread_runs,
    ),
    # block maps
    in_compiled(
        "a run that meets the one behind it is not merged",
        (
            "runs += np.int64((behind != 0) & (behind != state)) - np.int64((behind != 0) & (behind != previous))",
            "runs -= np.int64((behind != 0) & (behind != previous))",
        ),
        by=test_asynchronous.test_runs_and_present_blocks_follow_every_merge_and_split,
        fills=[(2, 4, 1), (3, 1, 2)],
        runs=3,
        present=4,
    ),
    in_compiled(
        "a run that meets the one before it is counted twice",
        ("        runs += np.int64(previous != state)\n", "        runs += 1\n"),
        by=test_asynchronous.test_runs_and_present_blocks_follow_every_merge_and_split,
        fills=[(2, 1, 1), (4, 1, 1), (3, 1, 1)],
        runs=1,
        present=3,
    ),
    in_compiled(
        "the holes end with the last block",
        ("return count if run == inside and state == 0 else run", "return run"),
        by=test_asynchronous.test_a_lookup_ends_where_the_state_does_and_the_holes_behind_the_last_block_do_not_end,
    ),
    # asynchronous I/O
    in_compiled(
        "the bus turns to the next read before the first is complete",
        (
            "            if not joins:\n                complete_request(a, now, request)\n",
            "            if not joins:\n                bus_step(a, now)\n"
            "                complete_request(a, now, request)\n",
        ),
        by=test_asynchronous.test_the_bus_of_the_flash_device_turns_to_the_next_read_after_the_target_is_told,
    ),
    in_compiled(
        "who waits for a counter does not look again after the device has told",
        (
            "wake(a, now, waiter, control[INTERRUPT_NS], RETRY_NOW)",
            "wake(a, now, waiter, control[INTERRUPT_NS], RESUMED)",
        ),
        by=test_asynchronous.test_who_waits_for_a_counter_looks_again_after_the_device_has_told,
    ),
    in_compiled(
        "only one who waits for a counter is told by the device",
        (
            "        a.locks[number, READER_HEAD] = -1\n        while waiter >= 0:\n",
            "        a.locks[number, READER_HEAD] = -1\n        if waiter >= 0:\n",
        ),
        by=test_asynchronous.test_all_who_wait_for_a_counter_are_interrupted_when_the_last_of_its_ios_is_done,
    ),
    in_compiled(
        "who is told by the device pays a switch",
        (
            "hand_on(a, now, number, control[INTERRUPT_NS], RESUMED)",
            "hand_on(a, now, number, control[INTERRUPT_NS], GRANTED)",
        ),
        by=test_asynchronous.test_who_is_told_by_the_device_is_interrupted_and_does_not_switch,
    ),
    in_compiled(
        "the service time is drawn when the service begins",
        (
            "    requests[request, SERVICE] = control[LATENCY_NS]\n    if control[LATENCY_RANDOM] != 0:\n"
            "        drawn = next_draw(a.threads, a.streams, requests[request, REQUEST_THREAD])\n"
            "        requests[request, SERVICE] = exponential(a.table, drawn, control[LATENCY_NS])\n",
            "",
        ),
        (
            "    a.requests[request, TRANSFERS] = 0\n",
            "    a.requests[request, TRANSFERS] = 0\n    requests = a.requests\n"
            "    drawn = next_draw(a.threads, a.streams, requests[request, REQUEST_THREAD])\n"
            "    requests[request, SERVICE] = exponential(a.table, drawn, a.control[LATENCY_NS])\n",
        ),
        by=test_asynchronous.test_the_service_time_is_drawn_at_the_submission_also_if_the_io_has_to_wait,
        seed=1,
    ),
    in_compiled(
        "the row of an asynchronous request is never free again",
        (
            "    requests[request, REQUEST_NEXT] = control[FREE_REQUEST]\n    control[FREE_REQUEST] = request\n",
            "",
        ),
        by=test_asynchronous.test_the_room_of_what_is_done_is_used_again,
    ),
    in_compiled(
        "the place that is kept for a tag is lost when somebody waits for it",
        ("        control[FREE_NODES] += 1\n        give_item(", "        give_item("),
        by=test_asynchronous.test_the_room_of_what_is_done_is_used_again,
    ),
    in_compiled(
        "a submission does not keep its processor awake",
        ("    control[LAST_SUBMITTER] = a.threads[thread, HOME]\n", ""),
        by=test_asynchronous.test_a_submission_from_a_processor_keeps_it_awake,
    ),
    in_compiled(
        "who is told by the device finds its processor awake",
        (
            "    latency += idle_exit(a.control, a.threads, a.cpus, now, thread)\n",
            "    if step != RESUMED:\n        latency += idle_exit(a.control, a.threads, a.cpus, now, thread)\n",
        ),
        by=test_asynchronous.test_a_thread_that_is_told_pays_for_leaving_idle_as_one_that_reads,
    ),
    in_compiled(
        "every transfer seeks",
        (
            "        if requests[request, REQUEST_OFFSET] != control[HEAD_AT]:\n",
            "        if True:\n",
        ),
        by=test_asynchronous.test_a_transfer_seeks_unless_it_goes_on_where_the_last_one_ended,
    ),
    in_compiled(
        "the head stays where a transfer began",
        (
            "control[HEAD_AT] = requests[request, REQUEST_OFFSET] + requests[request, REQUEST_LENGTH]",
            "control[HEAD_AT] = requests[request, REQUEST_OFFSET]",
        ),
        by=test_asynchronous.test_a_transfer_seeks_unless_it_goes_on_where_the_last_one_ended,
    ),
    # polled writes and the write cache
    in_compiled(
        "a polled write gives up its processor",
        (
            "                    if keep_ns > 0:\n                        threads[thread, STEP] = AFTER_POLL\n"
            "                        turn = KEEP\n                        break\n",
            "                    if keep_ns > 0:\n                        threads[thread, TIMER] = now + keep_ns\n"
            "                        threads[thread, STEP] = AFTER_POLL\n                        category = IN_SLEEP\n"
            "                        turn = BLOCK\n                        break\n",
        ),
        by=test_asynchronous.test_a_polled_write_keeps_its_processor_and_is_no_wait,
    ),
    in_compiled(
        "an asynchronous write is polled",
        (
            "    note(a.control, a.log, now, thread, line, op, number, length)\n    submit(",
            "    note(a.control, a.log, now, thread, line, op, number, length)\n"
            "    if op == SUBMITW and control[WRITE_POLLED] != 0:\n        tell_target(a, now, request)\n"
            "        return GOING_ON\n    submit(",
        ),
        by=test_asynchronous.test_an_asynchronous_write_is_never_polled,
    ),
    in_compiled(
        "a write has no command on its bus",
        ("duration = control[WRITE_COMMAND] + picoseconds(", "duration = picoseconds("),
        by=test_asynchronous.test_each_write_has_a_command_on_the_bus,
    ),
    in_compiled(
        "the first segment costs as the others do",
        (
            "drain_ns += (size - 1) // control[WRITE_SEGMENT] *",
            "drain_ns += (size - 1 + control[WRITE_SEGMENT]) // control[WRITE_SEGMENT] *",
        ),
        by=test_asynchronous.test_inline_bytes_need_no_draining_and_further_segments_more,
    ),
    # what is counted
    in_compiled(
        "what is booked ahead keeps its server busy before",
        (
            "        a.resources[resource, BUSY] -= booked_ahead(a, now, resource)\n",
            "        a.resources[resource, BUSY] -= max(a.resources[resource, FREE_AT] - now, 0)\n",
        ),
        by=test_asynchronous.test_what_a_polled_write_has_booked_ahead_is_busy_only_when_its_turn_comes,
        limit=100,
        bus=60,
        drain=60,
    ),
    in_compiled(
        "fewer than none are in flight",
        ("                if a.resources[IN_FLIGHT, LEVEL] > 0:\n", "                if True:\n"),
        by=test_asynchronous.test_a_completion_without_a_beginning_leaves_nobody_in_flight,
    ),
    in_compiled(
        "sleeps in a submission are not counted",
        ("            a.sleeps[category] += threads[thread, SUBMITTING]\n", ""),
        by=test_asynchronous.test_sleeps_between_the_beginning_and_the_end_of_a_submission_are_counted_by_their_reason,
    ),
    in_compiled(
        "a submission is over only when its I/O is complete",
        (
            "                note(a.control, a.log, now, thread, line, SUBMITTED, NOTHING, ZERO)\n"
            "                threads[thread, SUBMITTING] = 0\n",
            "                note(a.control, a.log, now, thread, line, SUBMITTED, NOTHING, ZERO)\n",
        ),
        by=test_asynchronous.test_sleeps_between_the_beginning_and_the_end_of_a_submission_are_counted_by_their_reason,
    ),
)

REFERENCE_MUTANTS = (
    # rwlock "fifo"
    in_reference(
        "one reader is woken instead of the run",
        "locks.py",
        (
            "while self._queue and self._queue[0].wait_mode == SHARED:",
            "if self._queue and self._queue[0].wait_mode == SHARED:",
        ),
        by=test_fifo_rwlock.test_a_run_of_readers_is_admitted_together_and_no_later_one,
    ),
    in_reference(
        "readers overtake a queued writer",
        "locks.py",
        ("if self._queue or self._writer is not None:", "if self._writer is not None:"),
        by=test_fifo_rwlock.test_no_reader_overtakes_a_queued_writer,
    ),
    in_reference(
        "a try gets past queued waiters",
        "locks.py",
        (
            "if not self._is_grantable(mode):\n            return 0\n",
            "if self._writer is not None:\n            return 0\n",
        ),
        by=test_fifo_rwlock.test_no_try_gets_past_a_queued_writer,
    ),
    in_reference(
        "a demote wakes the writer too",
        "locks.py",
        ("self._readers = 1\n        self._admit_readers()", "self._readers = 1\n        self._pass_on()"),
        by=test_fifo_rwlock.test_a_demote_before_a_leading_writer_wakes_nobody,
    ),
    in_reference(
        "a reader's release wakes although other readers hold",
        "locks.py",
        ("if self._readers == 0:\n            self._pass_on()", "if True:\n            self._pass_on()"),
        by=test_fifo_rwlock.test_a_release_by_one_reader_wakes_nobody_while_others_hold,
        kind=FIFO_RWLOCK,
        granted=300,
    ),
    # rwlock "spinning", mutex "barging"
    in_reference(
        "the hand-off flag is never set by a writer that starves",
        "spinning.py",
        ("if self._has_waited_long(thread):", "if False:"),
        by=test_spinning_rwlock.test_hand_off_after_4_ms_ends_the_starvation_of_a_waiting_writer,
    ),
    in_reference(
        "a reader batch has no limit",
        "spinning.py",
        ("readers[:READER_BATCH]", "readers"),
        by=test_spinning_rwlock.test_readers_anywhere_in_the_wait_list_are_granted_together_but_at_most_256,
    ),
    in_reference(
        "a barging mutex is handed to the sleeper",
        "spinning.py",
        (
            "self._first_is_woken = True\n            self._scheduler.wake(self._sleepers[0])\n",
            "self._sleepers[0].then = self._goes_on\n"
            "            self._grant_and_wake(self._sleepers.popleft(), EXCLUSIVE)\n",
        ),
        by=test_every_kind.test_a_newcomer_steals_a_free_lock_from_a_sleeper_that_is_on_its_way,
        kind=BARGING_MUTEX,
    ),
    in_reference(
        "a sleeper is woken again before it has run",
        "spinning.py",
        ("if self._sleepers and not self._first_is_woken:", "if self._sleepers:"),
        by=test_every_kind.test_a_sleeper_is_woken_only_once_until_it_has_run,
        kind=BARGING_MUTEX,
    ),
    in_reference(
        "the spinner is drawn from another thread's stream",
        "spinning.py",
        ("below(thread.draw(), count)", "below(self._spinners[0].draw(), count)"),
        by=test_barging_mutex.test_which_spinner_gets_the_mutex_is_drawn_from_the_releasers_stream,
        seed=1,
    ),
    in_reference(
        "a spinner gives up its processor",
        "scheduler.py",
        ("thread.state = State.SPINNING\n", "thread.state = State.SPINNING\n        self._give_up_cpu(thread)\n"),
        by=test_every_kind.test_waiters_keep_their_cpu_busy_if_they_spin_and_leave_it_to_others_if_not,
        kind=SPINLOCK,
    ),
    in_reference(
        "spinners spin on when the owner sleeps",
        "scheduler.py",
        ("            lock.owner_stops(thread)\n", "            pass\n"),
        by=test_every_kind.test_spinners_go_to_sleep_when_the_owner_does,
        kind=BARGING_MUTEX,
    ),
    # every lock
    in_reference(
        "an uncontended acquire goes round the event queue",
        "effects.py",
        ("if delay_ns == 0:\n            return operation(", "if delay_ns < 0:\n            return operation("),
        by=test_every_kind.test_a_free_lock_costs_no_event_and_no_time,
        kind=FIFO_MUTEX,
    ),
    # counters
    in_reference(
        "a woken waiter does not look at the count again",
        "counters.py",
        ("self._wait(thread, self._look_again)", "self._wait(thread, self._goes_on)"),
        by=test_counter.test_a_woken_waiter_looks_again_and_waits_again_if_the_count_has_risen,
    ),
    # events, processors, device
    in_reference(
        "wake-ups go before timers of the same instant",
        "simulation.py",
        (
            "event = self.environment.timeout(delay, subject)\n",
            "event = simpy.Event(self.environment)\n"
            "        event._ok, event._value = True, subject\n"
            "        self.environment.schedule(event, priority=int(delay > 0), delay=delay)\n",
        ),
        by=test_scheduling.test_timers_go_before_wakeups_that_come_due_at_the_same_instant,
    ),
    in_reference(
        "the ready queue is last come first served",
        "scheduler.py",
        ("self._ready.popleft()", "self._ready.pop()"),
        by=test_scheduling.test_threads_start_in_order_of_number_and_the_ready_queue_is_first_come_first_served,
    ),
    in_reference(
        "nobody is ever preempted",
        "scheduler.py",
        ("self._host.timeslice_ns > 0\n", "self._host.timeslice_ns < 0\n"),
        by=test_scheduling.test_a_thread_is_preempted_when_its_time_slice_is_over_and_another_waits,
    ),
    in_reference(
        "the wake-up latency is drawn from another thread's stream",
        "scheduler.py",
        ("latency_ns += thread.exponential(", "latency_ns += self.statistics._threads[0].exponential("),
        by=test_scheduling.test_the_latency_of_a_wakeup_is_drawn_from_the_stream_of_the_thread_that_is_woken,
        seed=1,
    ),
    in_reference(
        "the device wakes before the slot is given on",
        "devices.py",
        (
            "    def _finish(self, request: Request) -> None:\n",
            "    def _finish(self, request: Request) -> None:\n        self._complete(request)\n",
        ),
        (
            "            self._slots.change(self._simulation.now, -1)\n        self._complete(request)\n",
            "            self._slots.change(self._simulation.now, -1)\n",
        ),
        by=test_scheduling.test_a_completion_gives_its_slot_on_before_it_wakes_its_thread,
    ),
    # ends
    in_reference(
        "a deadlock is reported as finished",
        "engine.py",
        ("return self._deadlock() if", "return None if"),
        by=test_errors.test_deadlock_of_two_locks_in_opposite_order,
        kind=FIFO_MUTEX,
    ),
    in_reference(
        "a lock held at exit is not reported",
        "effects.py",
        ("        if thread.held:\n", "        if False:\n"),
        by=test_errors.test_a_lock_that_is_held_at_exit,
        kind=SPINLOCK,
    ),
)

REFERENCE_MUTANTS += (
    # queues, spaces and block maps
    in_reference(
        "an item is kept although somebody waits",
        "queues.py",
        ("        if not self._waiters:\n", "        if True:\n"),
        by=test_asynchronous.test_an_item_goes_to_who_has_waited_longest_and_is_not_taken_by_who_comes_before_it_runs,
    ),
    in_reference(
        "who waits for a queue is served last come first served",
        "queues.py",
        ("waiter = self._waiters.popleft()", "waiter = self._waiters.pop()"),
        by=test_asynchronous.test_an_item_goes_to_who_has_waited_longest_and_is_not_taken_by_who_comes_before_it_runs,
    ),
    in_reference(
        "a give wakes only one",
        "spaces.py",
        ("        while self._waiters and", "        if self._waiters and"),
        by=test_asynchronous.test_a_give_grants_to_all_whose_turn_has_come_and_who_fit,
    ),
    in_reference(
        "a take overtakes those who wait",
        "spaces.py",
        ("if not self._waiters and units <= self.free:", "if units <= self.free:"),
        by=test_asynchronous.test_nobody_takes_past_those_who_wait_although_enough_is_free,
    ),
    in_reference(
        "granted units are still free",
        "spaces.py",
        ("            self.free -= wanted\n", ""),
        by=test_asynchronous.test_what_is_granted_is_taken_before_the_woken_thread_runs,
    ),
    in_reference(
        "a run that meets the one behind it is not merged",
        "block_maps.py",
        ("min(end + 1, self.blocks)", "end"),
        by=test_asynchronous.test_runs_and_present_blocks_follow_every_merge_and_split,
        fills=[(2, 4, 1), (3, 1, 2)],
        runs=3,
        present=4,
    ),
    in_reference(
        "the holes end with the last block",
        "block_maps.py",
        ("if state == 0 and run.end() == self.blocks:", "if False:"),
        by=test_asynchronous.test_a_lookup_ends_where_the_state_does_and_the_holes_behind_the_last_block_do_not_end,
    ),
    # asynchronous I/O
    in_reference(
        "the bus turns to the next read before the first is complete",
        "flash.py",
        (
            "            self._complete(read.request)\n        self._step()\n",
            "            self._step()\n            self._complete(read.request)\n        self._step()\n",
        ),
        by=test_asynchronous.test_the_bus_of_the_flash_device_turns_to_the_next_read_after_the_target_is_told,
    ),
    in_reference(
        "who waits for a counter does not look again after the device has told",
        "counters.py",
        (
            "            waiter.waits_for = None\n            wake(waiter)\n",
            "            waiter.waits_for = None\n"
            "            if wake == self._scheduler.interrupt:\n                waiter.then = self._goes_on\n"
            "            wake(waiter)\n",
        ),
        by=test_asynchronous.test_who_waits_for_a_counter_looks_again_after_the_device_has_told,
    ),
    in_reference(
        "who is told by the device pays a switch",
        "queues.py",
        ("self._hand_on(request.tag, self._scheduler.interrupt)", "self._hand_on(request.tag, self._scheduler.wake)"),
        by=test_asynchronous.test_who_is_told_by_the_device_is_interrupted_and_does_not_switch,
    ),
    in_reference(
        "the service time is drawn when the service begins",
        "devices.py",
        (
            '        if self._parameters.latency_distribution == "exponential":\n'
            "            service_ns = request.thread.exponential(service_ns)\n",
            "",
        ),
        (
            "        start = self._gate.book(now, self._gate_ns) if self._gate_ns else now\n",
            "        start = self._gate.book(now, self._gate_ns) if self._gate_ns else now\n"
            "        service_ns = request.thread.exponential(service_ns)\n",
        ),
        by=test_asynchronous.test_the_service_time_is_drawn_at_the_submission_also_if_the_io_has_to_wait,
        seed=1,
    ),
    in_reference(
        "a polled write is preempted at its end",
        "effects.py",
        (
            "        self._simulation.log(thread, LOG_DEVICE_DONE, NO_OBJECT, length)\n        self.go_on(thread)\n",
            "        self._simulation.log(thread, LOG_DEVICE_DONE, NO_OBJECT, length)\n"
            "        self._end_of_cpu(thread)\n",
        ),
        by=test_asynchronous.test_a_polled_write_keeps_its_processor_and_is_no_wait,
    ),
    in_reference(
        "a polled write gives up its processor",
        "effects.py",
        (
            "            self._scheduler.run_after(thread, polled_ns)\n",
            "            self._scheduler.sleep(thread, polled_ns)\n",
        ),
        by=test_asynchronous.test_a_polled_write_keeps_its_processor_and_is_no_wait,
    ),
    in_reference(
        "polled writes do not take turns on the bus",
        "flash.py",
        ("start = self._write_bus.book(now, duration_ns, not_before=admitted)", "start = admitted"),
        by=test_asynchronous.test_polled_writes_take_turns_on_the_bus_and_at_the_cache,
    ),
    in_reference(
        "inline bytes are drained as the others",
        "flash.py",
        ("max(size_bytes - parameters.write_inline_bytes, 0)", "size_bytes"),
        by=test_asynchronous.test_inline_bytes_need_no_draining_and_further_segments_more,
    ),
    in_reference(
        "a transfer never seeks",
        "devices.py",
        ("            transfer_ns += self._parameters.seek_ns\n", "            pass\n"),
        by=test_asynchronous.test_a_transfer_seeks_unless_it_goes_on_where_the_last_one_ended,
    ),
    # what is counted
    in_reference(
        "what is booked ahead keeps its server busy before",
        "statistics.py",
        ("- max(0, self.free_at - now) + gaps_ns", "- max(0, self.free_at - now)"),
        by=test_asynchronous.test_what_a_polled_write_has_booked_ahead_is_busy_only_when_its_turn_comes,
        limit=100,
        bus=60,
        drain=60,
    ),
    in_reference(
        "fewer than none are in flight",
        "statistics.py",
        ("        if self._in_flight.level > 0:\n", "        if True:\n"),
        by=test_asynchronous.test_a_completion_without_a_beginning_leaves_nobody_in_flight,
    ),
    in_reference(
        "the latency of an I/O with a beginning of its own is that of the thread's clock",
        "statistics.py",
        ("        if since < 0:\n", "        if True:\n"),
        by=test_asynchronous.test_several_may_be_in_flight_from_one_thread_each_with_its_own_beginning,
    ),
    in_reference(
        "sleeps in a submission are not counted",
        "statistics.py",
        ("category.sleeps += thread.submits_io", "category.sleeps += 0"),
        by=test_asynchronous.test_sleeps_between_the_beginning_and_the_end_of_a_submission_are_counted_by_their_reason,
    ),
)

MUTANTS = COMPILED_MUTANTS + REFERENCE_MUTANTS
