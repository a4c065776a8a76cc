/**
 * Who takes part: starts programs, says what they are, and asks them.
 *
 * @module
 */
import { Contender, type Program } from "../contender.ts";
import type { Answer, Greeting } from "../sharing/contract.ts";
import { timeStart } from "./process_starts.ts";
import { allowedProcessors, pinTo } from "./processors.ts";
import { buildBundle, buildNative, missingPackage, programOf, type ProgramSource, programSources } from "./programs.ts";
import { type ContenderName, contenderNames, type Purpose, type Row } from "./rows.ts";

/** With fewer processors, a program that is kept on one would wait for what else runs there. */
const leastProcessors = 4;
/** From one round to the next, so that they are of different cores: neighbours often are not. */
const processorStep = 3;

/** A program that can be asked. */
interface Member {
  readonly source: ProgramSource;
  readonly program: Program;
  /** What it can do: all, where it says nothing. */
  readonly works?: readonly string[] | undefined;
  /** The running program; one that is started anew for each sample has none. */
  running?: Contender;
}

/** What was learnt of a contender when it was started. */
export type Versions = Partial<Record<ContenderName, string>>;

/** All who take part. */
export class Roster {
  /** Why something was not measured that should have been. */
  readonly failures: string[] = [];
  /** Who does not take part, and why that is no failure. */
  readonly absences: string[] = [];
  /** What the contenders are made of. */
  readonly versions: Versions = {};
  readonly #names: readonly ContenderName[];
  readonly #uuid: string;
  readonly #folder: string;
  readonly #members = new Map<Purpose, Member[]>();
  #processors = allowedProcessors();

  /** `folder`: where programs are built. On the software device, poolpass is alone. */
  constructor({ isSoftware, uuid, folder }: { isSoftware: boolean; uuid: string; folder: string }) {
    this.#names = isSoftware ? ["poolpass"] : contenderNames;
    this.#uuid = uuid;
    this.#folder = folder;
  }

  /** Starts what there is for a purpose. */
  async start(purpose: Purpose): Promise<void> {
    const sources = programSources.filter(({ contender, purpose: of }) =>
      of === purpose && this.#names.includes(contender)
    );
    const members = await Promise.all(sources.map((source) => this.#start(source)));
    this.#members.set(purpose, members.filter((member) => member !== undefined));
  }

  /** Ends what was started for it. */
  async end(purpose: Purpose): Promise<void> {
    await Promise.all((this.#members.get(purpose) ?? []).map(({ running }) => running?.end()));
    this.#members.delete(purpose);
  }

  /** The contenders who can do what a row asks for. */
  participants(row: Row): ContenderName[] {
    return this.#names.filter((name) => this.#memberFor(row, name) !== undefined);
  }

  /** Asks for the samples of a round. A contender that fails is given another chance by the next row. */
  async ask(row: Row, { name, round }: { name: ContenderName; round: number }): Promise<readonly number[] | undefined> {
    const member = this.#memberFor(row, name)!;
    try {
      if (row.purpose !== "start") member.running ??= new Contender(member.program);
      if (row.purpose === "calls") await this.#pin(member.running!, round);
      const answer = await this.#answerOf(row, member);
      if ("error" in answer) throw new Error(answer.error);
      return answer.nanoseconds;
    } catch (error) {
      this.failures.push(`${name}, ${row.name}: ${messageOf(error)}`);
      await member.running?.end();
      await this.#restart(member);
    }
  }

  /** All make their calls of a round on the same processor: some are slower than others by half. */
  async #pin({ pid }: Contender, round: number): Promise<void> {
    if (this.#processors.length < leastProcessors) return;
    if (await pinTo(this.#processors[round * processorStep % this.#processors.length]!, pid)) return;
    this.#processors = [];
    this.absences.push("There is no taskset: each program runs where the system puts it");
  }

  #memberFor(row: Row, name: ContenderName): Member | undefined {
    const work = workOf(row, name);
    return this.#members.get(row.purpose)?.find(({ source, works }) =>
      source.contender === name && (works === undefined || works.includes(work))
    );
  }

  #answerOf(row: Row, { source, program, running }: Member): Promise<Answer> {
    if (running === undefined) return timeStart(program);
    const { parameters, repetitions } = row;
    return running.ask(JSON.stringify({ work: workOf(row, source.contender), repetitions, ...parameters }));
  }

  async #start(source: ProgramSource): Promise<Member | undefined> {
    const { contender, purpose, file, packages = [] } = source;
    try {
      const missing = await missingPackage(packages);
      if (missing !== undefined) {
        this.#noteAbsence(contender, missing);
        return;
      }
      const program = programOf(source, await this.#build(source));
      if (purpose === "start") return await this.#tryStart({ source, program, works: source.works });
      const running = new Contender(program);
      const greeting = await running.greeting<Greeting | { missing: string } | { error: string }>().catch(
        async (error) => {
          await running.end();
          throw error;
        },
      );
      if ("missing" in greeting) {
        await running.end();
        this.#noteAbsence(contender, greeting.missing);
        return;
      }
      if ("error" in greeting || greeting.uuid !== this.#uuid) {
        await running.end();
        if ("error" in greeting) throw new Error(greeting.error);
        throw new Error(`it runs on ${greeting.uuid}, and the others on ${this.#uuid}`);
      }
      this.versions[contender] ??= greeting.versions;
      return { source, program, works: greeting.works, running };
    } catch (error) {
      const hasNoPython = error instanceof Deno.errors.NotFound && file.endsWith(".py");
      if (hasNoPython) this.#noteAbsence(contender, "there is no Python");
      else this.failures.push(`${contender}, ${file}: ${messageOf(error)}`);
    }
  }

  #build({ file, isBundled }: ProgramSource): Promise<string> | undefined {
    if (isBundled) return buildBundle(file, this.#folder);
    return file.endsWith(".cu") ? buildNative(file, this.#folder) : undefined;
  }

  /** Not timed: files that are read for the first time take long, and engines keep what they make of code. */
  async #tryStart(member: Member): Promise<Member | undefined> {
    let answer = await timeStart(member.program);
    if (!("error" in answer)) answer = await timeStart(member.program);
    if (!("error" in answer)) return member;
    if (!answer.error.includes("ModuleNotFoundError")) throw new Error(answer.error);
    this.#noteAbsence(member.source.contender, answer.error);
  }

  #noteAbsence(contender: ContenderName, missing: string): void {
    const line = `${contender} does not take part: ${missing.replace("ModuleNotFoundError: ", "")}`;
    if (!this.absences.includes(line)) this.absences.push(line);
  }

  async #restart(member: Member): Promise<void> {
    if (member.running === undefined) return;
    member.running = new Contender(member.program);
    await member.running.greeting().catch((error) => this.failures.push(`${member.program.name}: ${messageOf(error)}`));
  }
}

function workOf({ work, nativeWork = work }: Row, name: ContenderName): string {
  return name === "C++" ? nativeWork : work;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
