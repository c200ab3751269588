/** Builds the package; with `npm install PATH` npm brings no compiler for it, so that is brought first. */

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";

const npm = (...words) => execFileSync(process.platform === "win32" ? "npm.cmd" : "npm", words, { stdio: "inherit" });
if (!existsSync("node_modules/typescript")) npm("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--include=dev");
npm("run", "build");
