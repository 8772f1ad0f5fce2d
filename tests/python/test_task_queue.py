"""TaskQueue: batches come in order and once, whoever makes them, whatever they raise, and whoever ends it."""

import gc
import signal
import threading
import weakref

import pytest
from millrace._loader.engines.core import NotInTime, Task, TaskQueue

LONG = 120.0


class Value(Exception):
    """What weak references may be made to."""


def queue_of(*samples):
    queue = TaskQueue()
    tasks = [Task(number) for number in samples]
    for task in tasks:
        queue.add(task)
    return queue, tasks


class Consumer(threading.Thread):
    """Inside next() from the time on that its queue's lock is free again."""

    def __init__(self, queue):
        super().__init__(daemon=True)
        self.queue, self.waits = queue, threading.Event()
        queue._wait = self.wait_on
        self.start()
        assert self.waits.wait(LONG)

    def wait_on(self, task, seconds):
        self.waits.set()
        self.queue.finished.wait(seconds)

    def run(self):
        self.result = self.queue.next(LONG)

    def end(self):
        self.join(LONG)
        assert not self.is_alive()
        return self.result


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_order_is_that_of_add(order):
    queue, tasks = queue_of(1, 2, 3)
    consumer = Consumer(queue)
    for number in order:
        assert queue.answer(tasks[number], None if number == 1 else number)
    assert [consumer.end(), queue.next(), queue.next()] == [(0,), (None,), (2,)]
    assert queue.next() is None and queue.ready == 0
    assert (queue.counted["samples"], queue.counted["batches"]) == (6, 3)


def test_a_task_is_answered_once_and_in_its_epoch():
    queue, (first, left) = queue_of(1, 1)
    assert queue.answer(first, "one") and not queue.answer(first, "two", KeyError())
    assert queue.next() == ("one",) and not queue.answer(first, "three")
    queue.restart()
    assert not queue.answer(left, "of another epoch")
    assert queue.next() is None and not queue.waiting and queue.ready == 0


@pytest.mark.parametrize("error", [IndexError("no 7"), SystemExit(3), TimeoutError("of a socket")])
def test_errors_stand_in_their_places(error):
    queue, tasks = queue_of(1, 1, 1, 1)
    for task in tasks:
        queue.answer(task, task, error if task is tasks[1] else None)
    assert queue.next() == (tasks[0],)
    with pytest.raises(type(error)) as raised:
        queue.next()
    assert raised.value is error
    queue.failure = ZeroDivisionError("no task's")
    with pytest.raises(ZeroDivisionError):
        queue.next()
    assert queue.next() == (tasks[3],) and queue.counted["batches"] == 2


def test_a_late_task_is_still_to_come():
    queue, (task,) = queue_of(1)
    with pytest.raises(NotInTime) as late:
        queue.next(1e-9)
    assert late.value.errno is None
    queue.answer(task, 5)
    assert queue.next(1e-9) == (5,)


def test_a_task_that_was_waited_for_when_ctrl_c_came_is_still_to_come():
    queue, (task,) = queue_of(1)
    main, held = threading.main_thread().ident, queue.finished.wait

    def wait(task, seconds):
        threading.Timer(0.0, signal.pthread_kill, (main, signal.SIGINT)).start()
        held(LONG)

    queue._wait = wait
    with pytest.raises(KeyboardInterrupt):
        queue.next(LONG)
    queue.answer(task, 5)
    assert queue.next() == (5,)


def test_shutting_wakes_the_consumer_and_forgets():
    queue, tasks = queue_of(1, 1)
    consumer = Consumer(queue)
    ref = weakref.ref(kept := Value())
    queue.answer(tasks[1], kept)
    del kept, tasks
    queue.shut()
    assert consumer.end() is None and queue.next() is None and ref() is None
    queue.add(Task(1))
    assert queue.next() is None


@pytest.mark.parametrize("fails", [False, True])
def test_what_was_given_is_the_callers_alone(fails):
    queue, (task,) = queue_of(1)
    queue.answer(task, *((None, Value()) if fails else (Value(), None)))
    gc.disable()
    try:
        try:
            ref = weakref.ref(queue.next()[0])
        except Value as error:
            ref = weakref.ref(error)
        assert ref() is None
    finally:
        gc.enable()
