import type { Driver } from "../../../src/driver.ts";
import { watchedDriver } from "../../support/adapted_driver.ts";
import type { AllocatorModel } from "./caching_model.ts";
import type { StreamOrder } from "./caching_stream_order.ts";

/** The observers of a driver's calls. */
export interface Observers {
  readonly order: StreamOrder;
  /** The model of the trace that is running. */
  model: AllocatorModel | undefined;
  /** Events that were created and not destroyed, with the kind of step that created each. */
  readonly events: Map<bigint, string>;
}

/** Wraps a driver so that the observers are notified before or after each call. */
export function observed(driver: Driver, observers: Observers): Driver {
  const { order, events } = observers;
  const observing: Partial<Driver> = {
    streamCreateWithPriority(device, flags, priority) {
      const handle = driver.streamCreateWithPriority(device, flags, priority);
      order.addStream(device, handle);
      return handle;
    },
    streamDestroy(device, handle) {
      driver.streamDestroy(device, handle);
      order.stream(device, handle).isGone = true;
    },
    streamQuery(device, handle) {
      const isDone = driver.streamQuery(device, handle);
      if (isDone) {
        order.seeStream(order.stream(device, handle));
        observers.model?.sawStream(order.stream(device, handle));
      }
      return isDone;
    },
    streamSynchronize(device, handle) {
      driver.streamSynchronize(device, handle);
      order.seeStream(order.stream(device, handle));
    },
    streamWaitEvent(device, handle, event) {
      driver.streamWaitEvent(device, handle, event);
      order.wait(order.stream(device, handle), event);
      observers.model?.waited(order.recorded(event));
    },
    eventCreateWithFlags(device, flags) {
      const event = driver.eventCreateWithFlags(device, flags);
      order.addEvent(event);
      events.set(event, observers.model?.step.kind ?? "application");
      return event;
    },
    eventDestroy(device, event) {
      driver.eventDestroy(device, event);
      events.delete(event);
    },
    eventRecord(device, event, handle) {
      driver.eventRecord(device, event, handle);
      order.record(event, order.stream(device, handle));
    },
    eventQuery(event) {
      const isDone = driver.eventQuery(event);
      const recorded = order.recorded(event);
      if (isDone && recorded !== undefined) {
        order.seeEvent(event);
        observers.model?.sawPoint(recorded);
      }
      return isDone;
    },
    eventSynchronize(event) {
      driver.eventSynchronize(event);
      order.seeEvent(event);
    },
    mallocFromPoolAsync(device, byteLength, pool, handle) {
      const stream = order.stream(device, handle);
      observers.model?.growing(byteLength);
      let address: bigint;
      try {
        address = driver.mallocFromPoolAsync(device, byteLength, pool, handle);
      } catch (error) {
        observers.model?.refusedToGrow();
        throw error;
      }
      order.give(stream);
      observers.model?.grown(address, byteLength, stream);
      return address;
    },
    freeAsync(device, address, handle) {
      const stream = order.stream(device, handle);
      driver.freeAsync(device, address, handle);
      observers.model?.freed(address, stream);
      order.give(stream);
    },
    memcpyDtoHAsync(device, destination, source, handle) {
      driver.memcpyDtoHAsync(device, destination, source, handle);
      use(source, destination.byteLength, [device, handle]);
    },
    memcpyAsync(device, destination, source, byteLength, handle) {
      driver.memcpyAsync(device, destination, source, byteLength, handle);
      use(destination, byteLength, [device, handle]);
      use(source, byteLength, [device, handle]);
    },
    memcpyPeerAsync(device, destination, destinationDevice, source, sourceDevice, byteLength, handle) {
      driver.memcpyPeerAsync(device, destination, destinationDevice, source, sourceDevice, byteLength, handle);
      use(destination, byteLength, [device, handle]);
      use(source, byteLength, [device, handle]);
    },
    launchKernel(launch) {
      driver.launchKernel(launch);
      order.give(order.stream(launch.device, launch.stream));
    },
    memsetAsync(device, address, byte, byteLength, handle) {
      driver.memsetAsync(device, address, byte, byteLength, handle);
      use(address, byteLength, [device, handle]);
    },
    memsetD16Async(device, address, value, count, handle) {
      driver.memsetD16Async(device, address, value, count, handle);
      use(address, 2 * count, [device, handle]);
    },
    memsetD32Async(device, address, value, count, handle) {
      driver.memsetD32Async(device, address, value, count, handle);
      use(address, 4 * count, [device, handle]);
    },
    memsetD2D32Async(device, address, pitch, value, width, height, handle) {
      driver.memsetD2D32Async(device, address, pitch, value, width, height, handle);
      use(address, (height - 1) * pitch + 4 * width, [device, handle]);
    },
  };
  function use(address: bigint, byteLength: number, [device, handle]: [number, bigint]): void {
    const stream = order.stream(device, handle);
    order.give(stream);
    observers.model?.used(address, byteLength, stream);
  }
  return watchedDriver(driver, (name) => observers.model?.called(name), observing);
}
