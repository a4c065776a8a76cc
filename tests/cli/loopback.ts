/**
 * Requests to the servers of commands.
 *
 * @module
 */
import { request as send } from "node:http";
import { connect } from "node:net";

/** An answer to a request. */
export interface Answer {
  readonly status: number;
  readonly type: string | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

/** Makes a request. By Node's module: the runtimes' own fetch does not send every header. */
export function ask(
  url: string,
  options: { method?: string; headers?: Record<string, string>; signal?: AbortSignal } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asking = send(url, { agent: false, ...options }, (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (text) => body += text);
      response.on("end", () => {
        const { statusCode, headers } = response;
        resolve({ status: statusCode!, type: headers["content-type"], headers, body });
      });
      // The server may end the connection within its answer, of which the request does not hear any more.
      response.on("error", reject).on("close", () => reject(new Error("the answer is not complete")));
    });
    asking.on("error", reject).end();
  });
}

/** Sends bytes on a connection, and returns all that the server says until it closes it. */
export function say(url: string, text: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    let heard = "";
    socket.setEncoding("latin1").on("data", (part: string) => heard += part);
    socket.on("error", () => {}).on("close", () => resolve(heard));
    socket.write(text);
  });
}
