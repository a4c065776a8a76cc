/**
 * The document of the page that `poolpass top --web` serves, and its style. The class `Page` fills in the content.
 *
 * @module
 */

/** The page's icon: three layers of memory. */
export const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
<rect width="32" height="32" rx="7" fill="#0d1117"/><path d="M5 24h5v-7h6v-5h5v3h6v9z" fill="#56b4e9"/>
<path d="M5 17h5v-4h6V8h5v3h6v4h-6v-3h-5v5h-6v7H5z" fill="#e69f00"/></svg>
`;

/** The document. Its script and its style are other paths of the same server. */
export const pageDocument = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>poolpass top</title>
<link rel="icon" href="icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="page.css">
<script src="page.js" defer></script>
</head>
<body>
<header>
<h1 id="title">poolpass top</h1>
<p id="totals"></p>
<div class="controls"><span id="status" role="status">Connecting</span>
<button id="pause" type="button" aria-pressed="false">Pause</button></div>
</header>
<main>
<section aria-label="Memory">
<fieldset id="by"><legend class="hidden">Show memory by</legend>
<label><input type="radio" name="by" value="rows" checked> by offer or entry</label>
<label><input type="radio" name="by" value="sources"> by pool or device</label>
<label><input type="radio" name="by" value="processes"> by holder</label></fieldset>
<figure id="memory"></figure>
</section>
<section id="channels" aria-label="Channels" hidden>
<figure id="frames"></figure><figure id="dropped"></figure><figure id="lag"></figure>
</section>
<section aria-labelledby="table-title">
<h2 id="table-title">Who holds what</h2>
<table><thead><tr id="heading"></tr></thead><tbody id="lines"></tbody></table>
<p id="omitted"></p>
</section>
<section id="trace" aria-labelledby="trace-title" hidden>
<h2 id="trace-title">The last seconds of the trace</h2>
<div class="strip" role="region" aria-labelledby="trace-title" tabindex="0">
<img alt="Calls, kernels, messages and waits of each process, over time"></div>
</section>
<section aria-labelledby="log-title">
<h2 id="log-title">What has changed</h2>
<ol id="log" role="log" aria-labelledby="log-title" tabindex="0"></ol>
</section>
<noscript><p>This page needs JavaScript, which it loads from this server alone.</p></noscript>
</main>
</body>
</html>
`;

/** The style. Its colors of series are those of Okabe and Ito, which differ for the color-blind, too. */
export const style = `:root {
  color-scheme: light dark;
  --text: #1f2328; --muted: #57606a; --page: #f6f8fa; --panel: #ffffff; --rule: #d0d7de; --focus: #0969da;
  --good: #1a7f37; --bad: #b3261e;
  --c0: #0072b2; --c1: #e69f00; --c2: #009e73; --c3: #cc79a7; --c4: #56b4e9; --c5: #d55e00; --c6: #7a5195; --c7: #8c959f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e6edf3; --muted: #9da7b3; --page: #0d1117; --panel: #161b22; --rule: #30363d; --focus: #58a6ff;
    --good: #3fb950; --bad: #ff7b72;
    --c0: #3d9bdc; --c1: #e69f00; --c2: #17b890; --c3: #cc79a7; --c4: #8fd0f5; --c5: #e8703a; --c6: #b194d8; --c7: #7d8590;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 1680px; padding: 16px 20px 40px; background: var(--page); color: var(--text);
  font: 14px/1.45 system-ui, sans-serif; font-variant-numeric: tabular-nums; overflow-wrap: anywhere;
}
h1 { margin: 0; font-size: 17px; font-weight: 600; }
h2, figcaption { margin: 0; font-size: 14px; font-weight: 600; }
figcaption span { font-weight: 400; color: var(--muted); }
p { margin: 2px 0 0; }
header { display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 0 16px; margin-bottom: 14px; }
#totals, #omitted { color: var(--muted); }
.controls { grid-column: 2; grid-row: 1 / 3; display: flex; align-items: center; gap: 14px; }
button, input { font: inherit; accent-color: var(--c0); }
button {
  padding: 4px 14px; border: 1px solid var(--rule); border-radius: 6px; background: var(--panel); color: var(--text);
}
button:hover, button[aria-pressed="true"] { border-color: var(--muted); }
:focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; border-radius: 4px; }
#status::before { content: "\\25CF"; margin-right: 6px; color: var(--good); }
#status.problem::before { content: "\\25B2"; color: var(--bad); }
#status.paused::before { content: "\\275A\\275A"; color: var(--muted); font-size: 10px; }
main { display: grid; grid-template-columns: minmax(0, 1fr); gap: 14px; }
section {
  position: relative; min-width: 0; padding: 12px 14px; border: 1px solid var(--rule); border-radius: 8px;
  background: var(--panel);
}
section[hidden] { display: none; }
#channels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 320px), 1fr)); gap: 16px 28px; }
fieldset { position: absolute; top: 12px; right: 14px; margin: 0; padding: 0; border: 0; color: var(--muted); }
fieldset label { display: inline-block; margin-left: 14px; }
figure { margin: 0; min-width: 0; }
figure svg { display: block; width: 100%; cursor: crosshair; }
svg text { fill: var(--muted); font-size: 12px; }
.rule { stroke: var(--rule); }
.cursor { stroke: var(--text); stroke-dasharray: 2 3; }
.legend {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 270px), 1fr)); gap: 2px 28px; margin: 4px 0 0;
  padding: 0; list-style: none;
}
.legend li { display: flex; align-items: baseline; gap: 8px; min-width: 0; }
.name { flex: 1; min-width: 0; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; unicode-bidi: isolate; }
.legend svg { flex: none; width: 22px; height: 10px; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); }
.c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); } .c7 { --c: var(--c7); }
.area { fill: var(--c); }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.line.c1 { stroke-dasharray: 8 2; } .line.c2 { stroke-dasharray: 2 2; } .line.c3 { stroke-dasharray: 8 2 2 2; }
.line.c4 { stroke-dasharray: 12 3; } .line.c5 { stroke-dasharray: 4 2; } .line.c6 { stroke-dasharray: 8 2 2 2 2 2; }
table { width: 100%; margin-top: 6px; border-collapse: collapse; }
th, td { padding: 3px 14px 3px 0; text-align: left; vertical-align: top; white-space: nowrap; unicode-bidi: isolate; }
th { color: var(--muted); font-weight: 400; }
td:first-child, td:last-child { white-space: normal; }
td:first-child { min-width: 8em; font-weight: 600; }
.right { text-align: right; }
tr.first td { border-top: 1px solid var(--rule); }
.strip { margin-top: 6px; overflow-x: auto; }
.strip img { display: block; width: 100%; min-width: 900px; }
#log { max-height: 260px; margin: 6px 0 0; padding: 0; overflow-y: auto; list-style: none; }
#log li { display: flex; gap: 14px; padding: 1px 0; unicode-bidi: isolate; }
#log time { flex: none; color: var(--muted); }
#log:empty::before { content: "Nothing yet"; color: var(--muted); }
@media (max-width: 1100px) {
  table, tbody { display: block; }
  thead { display: none; }
  tr { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 250px), 1fr)); gap: 0 28px; }
  tr.first { margin-top: 8px; padding-top: 6px; border-top: 1px solid var(--rule); }
  tr:not(.first) { margin: 4px 0 0 12px; padding-left: 10px; border-left: 2px solid var(--rule); }
  tr.first td { border: 0; }
  td, td.right { display: flex; justify-content: space-between; gap: 16px; padding: 1px 0; text-align: right; }
  td::before { content: attr(data-label); flex: none; color: var(--muted); font-weight: 400; }
  td:first-child { grid-column: 1 / -1; }
  td:empty, td:first-child::before { display: none; }
}
@media (max-width: 700px) {
  body { padding: 12px 10px 32px; }
  header { grid-template-columns: minmax(0, 1fr); }
  .controls { grid-column: 1; grid-row: auto; margin-top: 8px; justify-content: space-between; }
  fieldset { position: static; margin-bottom: 8px; }
  fieldset label { margin: 0 14px 0 0; }
  td { white-space: normal; }
}
`;
