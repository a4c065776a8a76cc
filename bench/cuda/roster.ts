/**
 * The contenders that take part: starts their programs and sends them requests.
 *
 * @module
 */
import { Contender, type Program } from "../harness/contender.ts";
import type { Answer, Greeting } from "../sharing/contract.ts";
import { allowedProcessors, pinTo } from "./processors.ts";
import { missingPackage, timeStart } from "../harness/programs.ts";
import { buildNative, buildOneFile, programOf, type ProgramSource, programSources } from "./programs.ts";
import { type ContenderName, contenderNames, type Purpose, type Row } from "./rows.ts";

/** With fewer processors, a pinned program would wait for other programs on its processor. */
const leastProcessors = 4;
/** The distance between the processors of two rounds. Adjacent processors are often on the same core. */
const processorStep = 3;

/** A program that takes part. */
interface Member {
  readonly source: ProgramSource;
  readonly program: Program;
  /** The names of its workloads; undefined for all. */
  readonly works?: readonly string[] | undefined;
  /** The running program; undefined for programs that start anew for each sample. */
  running?: Contender;
}

/** The versions that the contenders reported when they started. */
export type Versions = Partial<Record<ContenderName, string>>;

/** The contenders that take part. */
export class Roster {
  /** Why rows could not be measured. */
  readonly failures: string[] = [];
  /** Which contenders do not take part, for a reason that is not a failure. */
  readonly absences: string[] = [];
  readonly versions: Versions = {};
  readonly #names: readonly ContenderName[];
  readonly #uuid: string;
  readonly #folder: string;
  readonly #members = new Map<Purpose, Member[]>();
  #processors = allowedProcessors();

  /**
   * On the software device, only poolpass takes part.
   *
   * @param folder where programs are built
   */
  constructor({ isSoftware, uuid, folder }: { isSoftware: boolean; uuid: string; folder: string }) {
    this.#names = isSoftware ? ["poolpass"] : contenderNames;
    this.#uuid = uuid;
    this.#folder = folder;
  }

  /** Starts the programs for a purpose. */
  async start(purpose: Purpose): Promise<void> {
    const sources = programSources.filter(({ contender, purpose: of }) =>
      of === purpose && this.#names.includes(contender)
    );
    const members = await Promise.all(sources.map((source) => this.#start(source)));
    this.#members.set(purpose, members.filter((member) => member !== undefined));
  }

  /** Ends the programs for a purpose. */
  async end(purpose: Purpose): Promise<void> {
    await Promise.all((this.#members.get(purpose) ?? []).map(({ running }) => running?.end()));
    this.#members.delete(purpose);
  }

  /** Returns the contenders that can measure a row. */
  participants(row: Row): ContenderName[] {
    return this.#names.filter((name) => this.#memberFor(row, name) !== undefined);
  }

  /** Requests the samples of a round. A contender that fails takes part in the next row again. */
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

  /**
   * Pins a program to the processor of a round, which is the same for all contenders: processors differ by up to half.
   */
  async #pin({ pid }: Contender, round: number): Promise<void> {
    if (this.#processors.length < leastProcessors) return;
    if (await pinTo(this.#processors[round * processorStep % this.#processors.length]!, pid)) return;
    this.#processors = [];
    this.absences.push("There is no taskset: programs are not pinned to processors");
  }

  #memberFor(row: Row, name: ContenderName): Member | undefined {
    const work = workOf(row, name);
    return this.#members.get(row.purpose)?.find(({ source, works }) =>
      source.contender === name && (works === undefined || works.includes(work))
    );
  }

  #answerOf(row: Row, { source, program, running }: Member): Promise<Answer> {
    if (running === undefined) return answerOfStart(program);
    const { parameters, repetitions } = row;
    return running.ask(JSON.stringify({ work: workOf(row, source.contender), repetitions, ...parameters }));
  }

  async #start(source: ProgramSource): Promise<Member | undefined> {
    const { contender, purpose, file, packages = [] } = source;
    try {
      const missing = await missingPackage(packages);
      if (missing !== undefined) {
        this.#recordAbsence(contender, missing);
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
        this.#recordAbsence(contender, greeting.missing);
        return;
      }
      if ("error" in greeting || greeting.uuid !== this.#uuid) {
        await running.end();
        if ("error" in greeting) throw new Error(greeting.error);
        throw new Error(`it runs on ${greeting.uuid}, but the others run on ${this.#uuid}`);
      }
      this.versions[contender] ??= greeting.versions;
      return { source, program, works: greeting.works, running };
    } catch (error) {
      const hasNoPython = error instanceof Deno.errors.NotFound && file.endsWith(".py");
      if (hasNoPython) this.#recordAbsence(contender, "there is no Python");
      else this.failures.push(`${contender}, ${file}: ${messageOf(error)}`);
    }
  }

  #build({ file, importsOneFile }: ProgramSource): Promise<string> | undefined {
    if (importsOneFile) return buildOneFile(file, this.#folder);
    return file.endsWith(".cu") ? buildNative(file, this.#folder) : undefined;
  }

  /** Starts a program untimed: the first reads of files are slow, and engines cache compiled code. */
  async #tryStart(member: Member): Promise<Member | undefined> {
    let answer = await answerOfStart(member.program);
    if (!("error" in answer)) answer = await answerOfStart(member.program);
    if (!("error" in answer)) return member;
    if (!answer.error.includes("ModuleNotFoundError")) throw new Error(answer.error);
    this.#recordAbsence(member.source.contender, answer.error);
  }

  #recordAbsence(contender: ContenderName, missing: string): void {
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

/** Times a program that starts anew for each sample. */
async function answerOfStart(program: Program): Promise<Answer> {
  try {
    return { nanoseconds: [await timeStart(program)] };
  } catch (error) {
    return { error: messageOf(error) };
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
