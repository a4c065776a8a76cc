/**
 * What a launch of a graph runs: the operations that the nodes have at that time, and their order.
 *
 * @module
 */
import { conditionalNodeType, graphNodeType } from "../../driver.ts";
import type { Branching, GraphOperation } from "./software_graph.ts";
import { type Scheduler, Stream, type Work } from "./streams.ts";

/** A node of a plan. */
export interface PlannedNode {
  readonly device: number;
  /** The places of the nodes that come before this one. */
  readonly dependencies: readonly number[];
  readonly isEnabled: boolean;
  readonly operation: GraphOperation;
  /** The nodes of the graph that the node runs. */
  readonly child: LaunchPlan | undefined;
  /** The nodes of the graphs of which the node runs some. */
  readonly bodies: readonly LaunchPlan[];
}

/** The nodes of a graph, in an order in which each comes after those that it depends on. */
export class LaunchPlan {
  /** All operations, including those of graphs that nodes run. */
  readonly operations: readonly GraphOperation[];
  readonly #nodes: readonly PlannedNode[];
  /** Whether each node runs on the stream of its only dependency, which no other node does. */
  readonly #continues: readonly boolean[];
  /**
   * Whether nodes are enqueued with the launch, and not when it begins: what a record or a wait of an event means to
   * other streams is decided when it is enqueued.
   */
  readonly #isEager: boolean;

  constructor(nodes: readonly PlannedNode[]) {
    this.#nodes = nodes;
    const continued = new Set<number>();
    this.#continues = nodes.map(({ device, dependencies }) => {
      const [before] = dependencies;
      const is = dependencies.length === 1 && !continued.has(before!) && nodes[before!]!.device === device;
      if (is) continued.add(before!);
      return is;
    });
    this.operations = nodes.flatMap(({ operation, child, bodies }) => {
      return child?.operations ?? [operation, ...bodies.flatMap((body) => body.operations)];
    });
    this.#isEager = this.operations.some(({ type }) => {
      return type === graphNodeType.eventRecord || type === graphNodeType.waitEvent;
    });
  }

  /** Enqueues the launch on a stream. */
  launch(stream: Stream, scheduler: Scheduler, after: readonly Work[]): Work {
    const place = { origin: stream, scheduler };
    if (this.#isEager) {
      const begin = scheduler.enqueue(stream, () => this.#begin(), { after });
      return scheduler.enqueue(stream, () => {}, { after: this.#enqueue([begin], place) });
    }
    const releases = this.operations.map((operation) => operation.retain?.());
    let hasBegun = false;
    const work = scheduler.enqueue(stream, () => {
      if (hasBegun) return true;
      hasBegun = true;
      this.#begin();
      work.waitFor(this.#enqueue([], place));
      return false;
    }, { after, release: () => releases.forEach((release) => release?.()) });
    return work;
  }

  #begin(): void {
    for (const { branching } of this.operations) branching?.condition.reset();
  }

  /**
   * Enqueues all nodes. Nodes without an order are on different streams, so that they run in any order. Returns the last
   * work of each stream.
   */
  #enqueue(after: readonly Work[], { origin, scheduler }: { origin: Stream; scheduler: Scheduler }): Work[] {
    const branches: Stream[] = [];
    for (const [index, node] of this.#nodes.entries()) {
      const before = node.dependencies.map((dependency) => branches[dependency]!);
      let branch = before[0]!;
      if (!this.#continues[index]) {
        branch = new Stream(node.device, { isBlocking: false });
        scheduler.addStream(branch);
        const works = before.length === 0 ? after : before.map(({ last }) => last!);
        // The streams of later nodes wait for this work if there is no other.
        scheduler.enqueue(branch, () => {}, { after: works });
      }
      if (node.isEnabled) enqueueNode(node, branch, { origin, scheduler });
      branches.push(branch);
    }
    const streams = new Set(branches);
    const ends = [...streams].map(({ last }) => last!);
    for (const branch of streams) scheduler.removeStream(branch);
    return ends;
  }

  /** Enqueues the nodes of a graph that a node runs, on the node's stream. */
  runOn(branch: Stream, place: { origin: Stream; scheduler: Scheduler }): void {
    const { last } = branch;
    const ends = this.#enqueue(last === undefined ? [] : [last], place);
    place.scheduler.enqueue(branch, () => {}, { after: ends });
  }

  /** Enqueues the nodes of a body, and returns their last works. */
  runBody(place: { origin: Stream; scheduler: Scheduler }): Work[] {
    return this.#enqueue([], place);
  }
}

function enqueueNode(
  { operation, child, bodies }: PlannedNode,
  branch: Stream,
  place: { origin: Stream; scheduler: Scheduler },
): void {
  if (child !== undefined) return child.runOn(branch, place);
  if (operation.branching !== undefined) return enqueueBodies(operation.branching, bodies, { branch, ...place });
  // Streams that wait for the event come after the earlier work of the launch's stream too.
  if (operation.type === graphNodeType.eventRecord) branch.comeAfterAllOf(place.origin);
  operation.enqueue(branch);
}

/** Enqueues work that runs some of the bodies of a conditional node, and ends when they are done. */
function enqueueBodies(
  { condition, type }: Branching,
  bodies: readonly LaunchPlan[],
  { branch, ...place }: { branch: Stream; origin: Stream; scheduler: Scheduler },
): void {
  let isFirst = true;
  const nextBody = (): LaunchPlan | undefined => {
    const { value } = condition;
    if (!isFirst && type !== conditionalNodeType.while) return undefined;
    isFirst = false;
    return bodies[type === conditionalNodeType.switch ? value : value === 0 ? 1 : 0];
  };
  const work = place.scheduler.enqueue(branch, () => {
    const body = nextBody();
    if (body === undefined) return true;
    work.waitFor(body.runBody(place));
    return false;
  });
}
