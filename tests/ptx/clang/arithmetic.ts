import { doubleFormat } from "./none.ts";
