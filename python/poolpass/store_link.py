"""A client's connection to a store, made anew when the store is gone, and what the process holds of the store."""
from __future__ import annotations

import time
from typing import Any, Collection, Literal, get_args

from . import messages as m
from .connection import Connection, goodbye_error
from .cuda import cuda, parse_uuid
from .descriptors import discard
from .documents import Documents, JsonObject, asks_of, number_of, object_of, text_of
from .errors import CudaError, SharingError, SharingErrorCode, SharingTimeoutError, quoted
from .event_loop import EventLoop, Pace
from .holding import UsedStreams
from .records import Record
from .sockets import connect
from .whole_memory import WholeMemory

# Bytes of answers that have arrived in part: all of a store's metadata may come in one, with who reads it.
MAXIMUM_ANSWER = 256 * 2**20
# Seconds between two attempts to connect.
CONNECT_PAUSE = 0.02
CODES: tuple[SharingErrorCode, ...] = get_args(SharingErrorCode)


class Hold(Record):
    """Memory that the process holds: as its writer, or by one map."""

    id: int
    # Whether the store has lost it.
    is_lost: bool = False
    # Whether the store counts it as sleeping: held, but not mapped.
    is_asleep: bool = False
    # The last request that it be woken.
    waking: Request | None = None

    def swap(self, other: Hold) -> None:
        """Exchanges what two holds are of."""
        self.id, other.id = other.id, self.id
        self.is_lost, other.is_lost = other.is_lost, self.is_lost
        self.is_asleep, other.is_asleep = other.is_asleep, self.is_asleep


class Request(Record):
    """What the store is asked for."""

    document: JsonObject
    # Whether the answer brings memory, which the process then holds.
    takes_memory: bool = False
    # The sleeping memory that the answer brings again.
    wakes: Hold | None = None
    # Whether the answer may have a descriptor of what is to be moved.
    may_bring: bool = False
    # Whether it means nothing to another store.
    is_of_connection: bool = False
    # The code with which a store refuses what was done when it was asked for before, and the answer lost.
    done_code: SharingErrorCode | None = None
    is_sent: bool = False
    # Whether it was sent by this connection or one before, and by one before.
    was_sent: bool = False
    is_repeated: bool = False
    # Whether anybody waits for the answer.
    is_wanted: bool = True
    answer: JsonObject | None = None
    descriptor: int | None = None
    hold: Hold | None = None
    error: SharingError | None = None

    @property
    def is_over(self) -> bool:
        return self.answer is not None or self.error is not None


class Unmapping(Record):
    """Memory that is unmapped once events have fired."""

    memory: WholeMemory
    hold: Hold
    events: list[Any]


class StoreLink:
    """A connection to the store at a path, and the thread that serves it. It lasts until nothing is held any more."""

    def __init__(
        self,
        path: str,
        *,
        users: Collection[int],
        wait: float | None,
        handshake_timeout: float,
        message_timeout: float,
        reconnect_timeout: float,
        close_timeout: float,
    ):
        self.path = path
        self.loop = EventLoop("poolpass-store-client")
        # Why nothing can be asked any more.
        self.failure: SharingError | None = None
        self.connection: Connection | None = None
        self._users = users
        self._handshake_timeout = handshake_timeout
        self._message_timeout = message_timeout
        self._reconnect_timeout = reconnect_timeout
        self.close_timeout = close_timeout
        self._requests: dict[int, Request] = {}
        self._last_request = 0
        # Descriptors that have come before their answers.
        self._descriptors: dict[int, int] = {}
        self._documents = Documents(MAXIMUM_ANSWER)
        # In the handshake, then until the store knows what the process holds, then for requests.
        self._state: Literal["greeting", "claiming", "ready"] = "greeting"
        # Whether there has been a connection before.
        self._was_connected = False
        self._waits = wait is not None
        # Until when a store must be there.
        self._connect_deadline = time.monotonic() + (wait or 0)
        self._next_attempt: float | None = 0.0
        # Until when a store must accept connections that came before.
        self._patient_until = time.monotonic() + handshake_timeout
        self._handshake_deadline: float | None = None
        self._holds: set[Hold] = set()
        self._unmapping: list[Unmapping] = []
        # Whether something could not be unmapped.
        self._has_leaked = False
        self._pace = Pace()
        self._close_deadline: float | None = None

    def start(self) -> None:
        self.loop.start(self)

    def begin_close(self) -> None:
        """Disconnects once nothing is held any more. Takes no lock: finalizers call it."""
        self.loop.call_soon(self._begin_close)

    @property
    def is_connected(self) -> bool:
        return self.connection is not None and self._state == "ready"

    @property
    def is_closing(self) -> bool:
        return self._close_deadline is not None

    @property
    def is_lingering(self) -> bool:
        """Whether what is still used keeps the connection open."""
        return len(self._holds) > 0 and not self._unmapping and self.loop.calls == 0

    # What follows runs on the caller's thread, and takes the lock itself.

    def ask(
        self,
        document: JsonObject,
        deadline: float | None,
        *,
        takes_memory: bool = False,
        wakes: Hold | None = None,
        may_bring: bool = False,
        is_decided: bool = False,
        done_code: SharingErrorCode | None = None,
    ) -> Request:
        """Asks the store for something, and waits for the answer. The caller then owns its descriptor.

        is_decided: whether to wait, after the deadline, until the store says whether it has done it nevertheless.
        done_code: the code with which a store refuses what was done when it was asked for before, and the answer lost.

        Raises SharingError: what the store answers, "timed-out" or "peer-gone".
        """
        request = Request(document, takes_memory, wakes, may_bring, done_code=done_code)
        if wakes is not None:
            wakes.waking = request
        with self.loop.lock:
            self._check_open()
            number = self._next_number()
            self._requests[number] = request
            if self.connection is not None and self._state == "ready":
                self._send(number, request)
            try:
                is_over = self.loop.wait_until(lambda: request.is_over, deadline)
                if not is_over and is_decided and request.is_sent:
                    self._notify({"do": "cancel", "request": number})
                    is_over = self.loop.wait_until(lambda: request.is_over, None)
                    if request.error is not None and request.error.code == "cut-off" and self.failure is None:
                        request.error, is_over = None, False
            except BaseException:
                self._give_up(number, request)
                raise
            if request.error is not None:
                raise request.error
            if not is_over:
                self._give_up(number, request)
                raise SharingTimeoutError(
                    "timed-out", f"Cannot wait any longer for the store at {self.path}: it has not answered "
                    f'{document["do"]!r}'
                )
        return request

    def ask_for_room(self, document: JsonObject, deadline: float | None, **options: Any) -> Request:
        """Asks the store for memory on a device. As long as the store answers that an entry should make room, moves that
        entry to host memory and asks again."""
        while True:
            request = self.ask({**document, "offloads": True}, deadline, **options)
            if request.answer is None or "offload" not in request.answer:
                return request
            from .moves import move

            entry = object_of(request.answer, "offload")
            which: JsonObject = {each: entry[each] for each in ("name", "rank") if each in entry}
            try:
                move(self, text_of(entry, "name"), which, "host", deadline)
            except SharingError as error:
                # Others may have used or removed the entry meanwhile, or filled the host memory: the store knows what to
                # do then.
                if error.code not in ("in-use", "not-found", "limit-exceeded"):
                    raise

    def sleep(self, hold: Hold) -> bool:
        """Tells the store that memory is held without being mapped. Returns whether the store knows it then: stores of
        earlier versions do not, and neither do those that have lost the memory."""
        if hold.is_lost:
            return False
        try:
            self.ask({"do": "sleep", "id": hold.id}, None)
        except SharingError as error:
            if error.code == "bad-message" or hold.is_lost:
                return False
            raise
        with self.loop.lock:
            hold.is_asleep = not hold.is_lost
        return hold.is_asleep

    def wake(self, hold: Hold, deadline: float | None) -> int | None:
        """Asks for the memory of a hold that sleeps. Returns its descriptor, which the caller then owns. Returns None
        if the memory is not on its device: it sleeps on."""
        if hold.is_lost:
            raise SharingError("not-found", f"Cannot wake memory of the store at {self.path}: it was restarted without")
        self.finish_waking(hold, deadline)
        request = self.ask({"do": "map", "id": hold.id, "sleeping": True}, deadline, wakes=hold)
        return request.descriptor

    def abandon_move(self, id: int) -> None:
        """Tells the store that memory was not moved after all."""
        with self.loop.lock:
            self._notify({"do": "moved", "id": id, "abandoned": True})

    def forget(self, hold: Hold) -> None:
        """Holds memory no more, which the store knows by itself."""
        with self.loop.lock:
            self._holds.discard(hold)

    def finish_unmapping(self, deadline: float | None) -> None:
        """Waits until the store knows what was released so far."""
        with self.loop.lock:
            self.loop.wait_until(lambda: not self._unmapping and self.loop.calls == 0, deadline)

    def finish_waking(self, hold: Hold, deadline: float | None) -> None:
        """Waits for the answer to a request that nobody waits for any more: only then is it known what the store
        thinks of the hold."""
        if hold.waking is None:
            return
        with self.loop.lock:
            if not self.loop.wait_until(lambda: hold.waking not in self._requests.values(), deadline):
                raise SharingTimeoutError("timed-out", f"Cannot wait any longer for the store at {self.path}")

    def sleep_again(self, hold: Hold) -> None:
        """Tells the store that memory which it has sent again is not mapped after all."""
        with self.loop.lock:
            self._sleep_again(hold)

    def end_hold(self, hold: Hold) -> None:
        """Gives memory that is not mapped back to the store."""
        with self.loop.lock:
            self._end_hold(hold)

    def release(self, memory: WholeMemory, hold: Hold, streams: UsedStreams) -> None:
        """Unmaps memory behind the work of streams. Any thread may call this, at any moment."""
        events = cuda().events_behind(streams, memory.device)
        self.loop.call_soon(lambda: self._begin_unmapping(Unmapping(memory, hold, events)))

    # What follows runs with the lock held.

    def _check_open(self) -> None:
        self.loop.check_process()
        if self.is_closing:
            raise RuntimeError(f"Cannot use the client of the store at {self.path}: it was closed")
        if self.failure is not None:
            raise self.failure

    def _next_number(self) -> int:
        while True:
            self._last_request = self._last_request % 0xFFFF_FFFF + 1
            if self._last_request not in self._requests:
                return self._last_request

    def _give_up(self, number: int, request: Request) -> None:
        """Nobody waits for an answer any more."""
        request.is_wanted = False
        if self._requests.get(number) is not request:
            self._release_memory(request)
        elif request.is_sent:
            self._notify({"do": "cancel", "request": number})
        else:
            del self._requests[number]

    def _release_memory(self, request: Request) -> None:
        if request.descriptor is not None:
            discard(request.descriptor)
            request.descriptor = None
        if request.document["do"] == "move":
            if request.hold is not None:
                self._holds.discard(request.hold)
            if request.answer is not None and request.answer.get("moving") is True:
                self._notify({"do": "moved", "id": request.answer.get("id"), "abandoned": True})
        elif request.hold is not None:
            self._end_hold(request.hold)
        if request.wakes is not None and request.answer is not None and not request.wakes.is_asleep:
            self._sleep_again(request.wakes)

    def _end_hold(self, hold: Hold) -> None:
        self._holds.discard(hold)
        if not hold.is_lost:
            self._notify({"do": "release", "id": hold.id, **({"sleeping": True} if hold.is_asleep else {})})

    def _sleep_again(self, hold: Hold) -> None:
        hold.is_asleep = True
        if not hold.is_lost:
            self._notify({"do": "sleep", "id": hold.id})

    def _notify(self, document: JsonObject) -> None:
        """Asks for something whose answer does not matter, and that a store that is gone need not be asked again."""
        if self.connection is None or self._state == "greeting":
            return
        number = self._next_number()
        request = self._requests[number] = Request(document, is_of_connection=True, is_wanted=False)
        self._send(number, request)

    def _send(self, number: int, request: Request) -> None:
        assert self.connection is not None
        request.is_repeated = request.was_sent
        request.is_sent = request.was_sent = True
        for message in asks_of(number, request.document):
            self.connection.send(message)
        if self.connection.wants_to_write and not self.loop.is_current:
            self.loop.wake()

    # What follows runs on the loop's thread, with its lock held.

    def _begin_close(self) -> None:
        if self._close_deadline is not None:
            return
        self._close_deadline = time.monotonic() + self.close_timeout
        if self.connection is None and not self._holds:
            self._next_attempt = None
        self._fail_requests(
            SharingError("cut-off", f"Cannot use the store at {self.path}: its client was closed")
        )

    def next_deadline(self) -> float | None:
        deadlines = []
        if self.connection is not None and self.connection.has_more:
            return 0.0
        if self.connection is not None and self.connection.deadline is not None:
            deadlines.append(self.connection.deadline)
        if self._handshake_deadline is not None:
            deadlines.append(self._handshake_deadline)
        if self._next_attempt is not None:
            deadlines.append(self._next_attempt)
        if self._unmapping:
            deadlines.append(self._pace.next())
        if self._close_deadline is not None and self.connection is not None and not self._holds:
            deadlines.append(self._close_deadline)
        return min(deadlines, default=None)

    def on_ready(self, key: Any) -> None:
        if self.connection is not None and key is self.connection:
            self._receive(self.connection)

    def _receive(self, connection: Connection) -> None:
        try:
            for message, descriptor in connection.receive():
                self._on_message(message, descriptor)
                if self.connection is not connection:
                    return
        except SharingError as error:
            self._disconnect(error)

    def poll(self) -> None:
        now = time.monotonic()
        if self._next_attempt is not None and now >= self._next_attempt:
            self._connect(now)
        if self.connection is not None and self.connection.has_more:
            self._receive(self.connection)
        connection = self.connection
        if connection is not None:
            try:
                connection.flush()
                connection.check_deadline(now)
                if self._handshake_deadline is not None and now > self._handshake_deadline:
                    raise SharingError(
                        "timed-out", f"Cannot connect to {self.path}: {connection.name} has not answered for "
                        f"{self._handshake_timeout:g} s; is it stopped?"
                    )
            except SharingError as error:
                self._disconnect(error)
        self._unmap_what_is_done()
        if self.connection is not None and self.is_closing:
            self._leave_if_done(now)
        if self.connection is not None:
            self.loop.watch(self.connection.socket, reads=True, writes=self.connection.wants_to_write)

    def is_over(self) -> bool:
        return self.is_closing and self.connection is None and not self._holds and not self._unmapping

    def on_over(self) -> None:
        pass

    def on_failure(self, error: Exception) -> None:
        failure = SharingError("internal-error", f"Cannot go on with the store at {self.path}: {error}")
        failure.__cause__ = error
        if self.connection is not None:
            self._disconnect(failure)
        else:
            self._fail(failure)

    def _connect(self, now: float) -> None:
        self._next_attempt = None
        try:
            connection = Connection(connect(self.path, None), message_timeout=self._message_timeout)
        except SharingError as error:
            self._retry(error, now)
            return
        except OSError as error:
            self._fail(self._failure_of(error, "internal-error"))
            return
        if not connection.is_of(self._users):
            connection.say_goodbye("not-permitted", "The client does not trust the user of the store")
            connection.process.close()
            self._fail(SharingError(
                "not-permitted",
                f"Cannot use the store at {self.path}: it is run by user {connection.peer.uid}; list it in `users`",
            ))
            return
        self.connection = connection
        self._state = "greeting"
        self._documents = Documents(MAXIMUM_ANSWER)
        self._handshake_deadline = now + self._handshake_timeout
        self.loop.register(connection.socket, connection)
        connection.send(m.Hello(m.LOWEST_VERSION, m.PROTOCOL_VERSION, "store-client"))

    def _retry(self, error: SharingError, now: float) -> None:
        """A store may be there later."""
        if error.code == "timed-out" and not self.is_closing and now < self._patient_until:
            # Others that connect keep it busy.
            self._next_attempt = now + CONNECT_PAUSE
            return
        is_waited_for = self._was_connected or self._waits
        may_come = is_waited_for and error.code in ("not-listening", "peer-gone", "not-found", "out-of-descriptors")
        if may_come and now < self._connect_deadline and not (self.is_closing and not self._holds):
            self._next_attempt = now + CONNECT_PAUSE
        elif self._was_connected and error.code != "out-of-descriptors":
            self._fail(self._failure_of(error, "peer-gone"))
        elif may_come and error.code != "out-of-descriptors":
            timeout = SharingTimeoutError("timed-out", f"Cannot connect to {self.path}: no store listens there")
            timeout.__cause__ = error
            self._fail(timeout)
        else:
            self._fail(error)

    def _failure_of(self, error: Exception, code: SharingErrorCode) -> SharingError:
        text = f"Cannot use the store at {self.path}: {error}"
        if code == "peer-gone":
            text = (
                f"Cannot use the store at {self.path}: it is gone, and none was there again within "
                f"{self._reconnect_timeout:g} s (reconnect_timeout); what is mapped stays valid"
            )
        failure = SharingError(code, text)
        failure.__cause__ = error
        return failure

    def _on_message(self, message: m.Message, descriptor: int | None) -> None:
        if descriptor is not None and not (isinstance(message, m.Memory) and self._state != "greeting"):
            discard(descriptor)
            descriptor = None
        if isinstance(message, m.Goodbye):
            assert self.connection is not None
            self._disconnect(goodbye_error(self.connection, message), says_goodbye=False)
        elif self._state == "greeting":
            self._on_welcome(message)
        elif isinstance(message, m.Memory):
            assert descriptor is not None
            if message.request not in self._requests or message.request in self._descriptors:
                discard(descriptor)
                raise m.ProtocolError("MEMORY answers nothing")
            self._descriptors[message.request] = descriptor
        elif isinstance(message, m.Answer):
            self._on_answer(message)
        else:
            raise m.ProtocolError(f"A store must not send {m.layout_of(message).name}")

    def _on_welcome(self, message: m.Message) -> None:
        if not isinstance(message, m.Welcome):
            raise m.ProtocolError(f"{m.layout_of(message).name} came before WELCOME")
        if not m.is_known_version(message.version):
            raise m.ProtocolError(f"The store wants version {message.version}", "version-mismatch")
        self._handshake_deadline = None
        if not self._was_connected:
            self._was_connected = True
            self._begin_requests()
            return
        # The next store must know what the process holds before anything else.
        self._state = "claiming"
        counts: dict[int, list[int]] = {}
        for hold in self._holds:
            if not hold.is_lost:
                both = counts.setdefault(hold.id, [0, 0])
                both[0] += 1
                both[1] += hold.is_asleep
        number = self._next_number()
        held = [
            {"id": id, "count": count, **({"sleeping": sleeping} if sleeping else {})}
            for id, (count, sleeping) in counts.items()
        ]
        claim = self._requests[number] = Request({"do": "claim", "held": held}, is_of_connection=True)
        self._send(number, claim)

    def _begin_requests(self) -> None:
        self._state = "ready"
        for number, request in list(self._requests.items()):
            if not request.is_sent:
                self._send(number, request)

    def _on_answer(self, message: m.Answer) -> None:
        number = message.request
        request = self._requests.get(number)
        if request is None or not request.is_sent:
            raise m.ProtocolError(f"ANSWER {number} answers nothing")
        document = self._documents.add(message)
        if document is None:
            return
        del self._requests[number]
        request.descriptor = self._descriptors.pop(number, None)
        if request.document["do"] == "claim":
            self._on_claimed(request, document)
            return
        try:
            self._settle(request, document)
        except SharingError as error:
            request.error = error
            raise
        finally:
            if not request.is_wanted or request.error is not None:
                self._release_memory(request)

    def _settle(self, request: Request, document: JsonObject) -> None:
        if document.get("ok") is not True:
            error = _error_of(document)
            if not request.is_repeated or error.code != request.done_code:
                request.error = error
                return
        if request.takes_memory and not _is_without_memory(request, document):
            request.hold = Hold(number_of(document, "id", 1))
            self._holds.add(request.hold)
            if _is_elsewhere(request, document):
                request.hold.is_asleep = True
            elif request.descriptor is None:
                raise m.ProtocolError("The answer of a store has no descriptor")
        elif request.wakes is not None:
            if request.descriptor is not None:
                request.wakes.is_asleep = False
            elif "place" not in document:
                raise m.ProtocolError("The answer of a store has no descriptor")
        elif request.may_bring:
            if request.document["do"] == "move" and document.get("moving") is True and "memory" in document:
                # The next store must know of it, if one takes over meanwhile.
                request.hold = Hold(number_of(document, "memory", 1))
                self._holds.add(request.hold)
        elif request.descriptor is not None:
            raise m.ProtocolError("MEMORY comes for a request that asks for none")
        request.answer = document

    def _on_claimed(self, request: Request, document: JsonObject) -> None:
        if request.descriptor is not None:
            self._release_memory(request)
            raise m.ProtocolError("MEMORY comes for a request that asks for none")
        unknown = document.get("unknown", [])
        if not isinstance(unknown, list):
            raise m.ProtocolError("The store does not say what it does not know")
        claimed = {each["id"] for each in request.document["held"]}
        for hold in self._holds:
            if hold.id in unknown and hold.id in claimed:
                # This process may be the last that has it mapped.
                hold.is_lost = True
        self._begin_requests()

    def _leave_if_done(self, now: float) -> None:
        connection = self.connection
        assert connection is not None and self._close_deadline is not None
        if self._holds or self._unmapping:
            return
        if connection.wants_to_write and now < self._close_deadline:
            return
        self._leave("not-released" if self._has_leaked else "done")

    def _leave(self, reason: m.GoodbyeReason | None, text: str = "") -> None:
        """Ends the connection."""
        connection, self.connection = self.connection, None
        assert connection is not None
        self._handshake_deadline = None
        self.loop.unregister(connection.socket)
        if reason is None:
            connection.close()
        else:
            connection.say_goodbye(reason, text)
        connection.process.close()
        for descriptor in self._descriptors.values():
            discard(descriptor)
        self._descriptors.clear()
        for number, request in list(self._requests.items()):
            request.is_sent = False
            if request.is_of_connection or not request.is_wanted:
                del self._requests[number]

    def _disconnect(self, error: SharingError, *, says_goodbye: bool = True) -> None:
        if self.connection is None:
            return
        is_gone = error.code == "peer-gone"
        self._leave(m.reason_of_error(error) if says_goodbye and not is_gone else None, str(error))
        if not is_gone:
            self._fail(error)
            return
        now = time.monotonic()
        if self._was_connected:
            self._connect_deadline = now + self._reconnect_timeout
            self._patient_until = now + self._reconnect_timeout
        self._retry(error, now)

    def _fail(self, error: SharingError) -> None:
        if self.failure is None:
            self.failure = error
        self._fail_requests(error)

    def _fail_requests(self, error: SharingError) -> None:
        for number, request in list(self._requests.items()):
            if request.is_wanted and not request.is_of_connection:
                request.error = error
                request.is_wanted = False
                if not request.is_sent or self.connection is None:
                    del self._requests[number]

    def _begin_unmapping(self, unmapping: Unmapping) -> None:
        self._unmapping.append(unmapping)
        self._pace.restart()

    def _unmap_what_is_done(self) -> None:
        done = [each for each in self._unmapping if _has_settled(each)]
        for each in done:
            self._unmapping.remove(each)
            try:
                each.memory.unmap()
            except CudaError:
                # The store keeps it until the process has ended.
                self._has_leaked = True
                self._holds.discard(each.hold)
            else:
                self._end_hold(each.hold)
        if done:
            self._pace.restart()


def device_of(text: str, name: str) -> int:
    """Returns the ordinal of the device that an entry is on, given its UUID."""
    try:
        return cuda().device_of_uuid(parse_uuid(text))
    except ValueError as error:
        raise SharingError("device-not-visible", f"Cannot map {quoted(name)}: {error}") from None


def _has_settled(unmapping: Unmapping) -> bool:
    """Whether the work is done that uses memory. Destroys the events of work that is."""
    calls = cuda()
    while unmapping.events:
        try:
            if not calls.has_fired(unmapping.events[-1]):
                return False
            calls.destroy_event(unmapping.events[-1])
        except CudaError:
            # Nothing of a lost device is used any more.
            pass
        unmapping.events.pop()
    return True


def _is_without_memory(request: Request, document: JsonObject) -> bool:
    """Whether memory was to be created once, and another client has published some; or an entry has to make room first;
    or memory was published, and there is none that could take its place."""
    if request.document["do"] == "publish":
        return "id" not in document
    is_published = request.document.get("once") is True and document.get("published") is True
    return is_published or request.document.get("offloads") is True and "offload" in document


def _is_elsewhere(request: Request, document: JsonObject) -> bool:
    """Whether memory was to be mapped, and is not on its device."""
    return request.document.get("places") is True and "place" in document


def _error_of(document: JsonObject) -> SharingError:
    """The error that a store answers with."""
    code, text = document.get("code"), document.get("message")
    return SharingError(
        next((each for each in CODES if each == code), "internal-error"),
        text if isinstance(text, str) else "Cannot use the store: it gave no reason",
    )
