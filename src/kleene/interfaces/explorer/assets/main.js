// Everything put together: controls, shortcuts, the link in the address, the theme.

const SHOWN_AT_ONCE = 2000;  // events; of more, the beginning is shown, and not all of them at once

const byId = (id) => document.getElementById(id);
const announce = (text) => { byId("live").textContent = text; };

function connectFilters(state) {
  const { data, clock } = state;
  byId("query").append(...[["all queries", -1], ...data.queries.map(({ name }, at) => [name, at])].map(([name, at]) => element("option", { value: at }, name)));
  byId("query-field").hidden = data.queries.length < 2;
  byId("key-field").hidden = !data.families.length;
  const times = data.events.times;
  const whole = (time) => clock.text(time).replace(/\.\d+$/, "");
  byId("from").placeholder = times.length ? whole(times[0]) : "";
  byId("until").placeholder = times.length ? whole(times[times.length - 1]) : "";

  const show = () => {
    byId("query").value = state.query;
    byId("key").value = state.key ? state.keyText(state.key.family, state.key.key) : "";
    byId("from").value = state.from === null ? "" : clock.text(state.from);
    byId("until").value = state.until === null ? "" : clock.text(state.until);
    byId("lanes").value = state.lanes;
    byId("filter-error").textContent = "";
  };
  const offer = () => {
    const wanted = byId("key").value.toLowerCase();
    const fitting = [];
    for (const { text } of state.allKeys()) {
      if (text.toLowerCase().includes(wanted) && fitting.push(text) >= 50) break;
    }
    byId("keys").replaceChildren(...fitting.map((text) => element("option", { value: text })));
  };
  const apply = () => {
    const problems = [];
    const time = (id) => {
      const text = byId(id).value.trim();
      const parsed = text ? clock.parse(text) : null;
      if (text && parsed === null) problems.push(`“${text}” is no time: write it as ${whole(state.extent[0])}`);
      return parsed;
    };
    const text = byId("key").value.trim();
    const found = text ? state.findKey(text) : null;
    if (text && !found) problems.push(`no event has the key “${text}”`);
    const changes = { query: Number(byId("query").value), key: found && { family: found.family, key: found.key }, from: time("from"), until: time("until") };
    byId("filter-error").textContent = problems.join("; ");
    if (!problems.length) state.setFilter(changes);
  };
  byId("filters").addEventListener("submit", (sent) => { sent.preventDefault(); apply(); });
  for (const id of ["query", "key", "from", "until"]) byId(id).addEventListener("change", apply);
  for (const happening of ["focus", "input"]) byId("key").addEventListener(happening, offer);
  byId("lanes").addEventListener("change", () => { state.lanes = byId("lanes").value; state.tell("lanes"); });
  byId("use-view").addEventListener("click", () => state.setFilter({ from: Math.floor(state.view[0]), until: Math.ceil(state.view[1]) }));
  byId("reset").addEventListener("click", () => {
    state.setFilter({ query: -1, key: null, from: null, until: null });
    state.fit(state.extent);
  });
  state.onChange((what) => {
    if (what !== "filter") return;
    show();
    announce(`${plural(state.matches.length, "match", "matches")} with these filters.`);
  });
  show();
}

function connectTools(state) {
  const acts = {
    "pan-left": () => state.pan(-0.25), "pan-right": () => state.pan(0.25), "zoom-in": () => state.zoom(0.6), "zoom-out": () => state.zoom(1 / 0.6),
    "zoom-match": () => state.zoomToMatch(), "zoom-all": () => state.fit(state.extent), previous: () => state.step(-1), next: () => state.step(1),
  };
  for (const [id, act] of Object.entries(acts)) byId(id).addEventListener("click", act);
  byId("skip").addEventListener("click", (press) => { press.preventDefault(); byId("list").focus(); });
  byId("help").addEventListener("click", () => byId("shortcuts").showModal());
  byId("close").addEventListener("click", () => byId("shortcuts").close());
  document.addEventListener("keydown", (press) => {
    const typing = press.target.closest("input, select, textarea, dialog");
    if (typing || press.ctrlKey || press.metaKey || press.altKey || press.defaultPrevented || !byId("letters").checked) return;
    const act = { n: () => state.step(1), p: () => state.step(-1), "/": () => byId("key").focus(), "?": () => byId("shortcuts").showModal() }[press.key];
    if (!act) return;
    press.preventDefault();
    act();
  });
}

function connectTheme(redraw) {
  const themes = ["system", "light", "dark"];
  let now = 0;
  byId("theme").addEventListener("click", () => {
    now = (now + 1) % themes.length;
    byId("theme").textContent = `Theme: ${themes[now]}`;
    if (now) document.documentElement.dataset.theme = themes[now]; else delete document.documentElement.dataset.theme;
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

// The address says what is shown, so that it can be given to others. A frame in a notebook has no address of its own.
function connectAddress(state) {
  let written = location.hash;
  const write = () => {
    written = state.hash();
    try {
      history.replaceState(null, "", written);
    } catch {
      return;
    }
  };
  state.onChange((what) => { if (what !== "view") write(); });
  window.addEventListener("hashchange", () => {
    if (location.hash === written) return;
    state.readHash(location.hash);
    state.tell("filter");
    if (state.selected >= 0) state.select(state.selected);
  });
}

function describeSelection(state) {
  state.onChange((what) => {
    if (what !== "selection" || state.selected < 0) return;
    const key = state.keyOfMatch(state.selected);
    const [begin, end] = state.matchRange(state.selected);
    const events = state.data.matches.offsets[state.selected + 1] - state.data.matches.offsets[state.selected];
    const parts = [
      `Match ${count(state.position(state.selected) + 1)} of ${count(state.matches.length)}`,
      ...(state.data.queries.length > 1 ? [state.data.queries[state.data.matches.query[state.selected]].name] : []),
      ...(key ? [state.keyText(key.family, key.key)] : []),
      `${plural(events, "event", "events")} from ${state.clock.text(begin)} to ${state.clock.text(end)}`,
    ];
    announce(`${parts.join(", ")}.`);
  });
}

async function main() {
  const data = await loadData();
  const state = new State(data);
  byId("title").textContent = data.title;
  const shown = (kind, one, many) => (data[kind].count < data.totals[kind] ? `${count(data[kind].count)} of ${plural(data.totals[kind], one, many)}` : plural(data[kind].count, one, many));
  byId("summary").textContent = `${shown("matches", "match", "matches")} in ${shown("events", "event", "events")}`;
  byId("notices").hidden = !data.notices.length;
  byId("notices").append(element("ul", {}, data.notices.map((text) => element("li", {}, text))));
  const linked = state.readHash(location.hash);
  if (data.events.count > SHOWN_AT_ONCE && !location.hash) {
    const times = data.events.times;
    const begin = state.selected >= 0 ? data.matches.start[state.selected] : times[0];
    const first = Math.max(0, lowerBound(times.length, (at) => times[at], begin) - SHOWN_AT_ONCE / 10);
    state.fit([times[first], times[Math.min(times.length - 1, first + SHOWN_AT_ONCE)]]);
    if (state.selected >= 0 && data.matches.end[state.selected] > state.view[1]) state.zoomToMatch();
  }
  const timeline = new Timeline(state);
  const list = new MatchList(state);
  const details = new Details(state);
  const numbers = new Numbers(state);
  connectFilters(state);
  connectTools(state);
  connectTheme(() => timeline.redraw());
  connectAddress(state);
  describeSelection(state);
  drawPlans(data);
  numbers.draw();
  details.draw();
  timeline.draw();
  list.reveal(true);
  list.draw();
  if (linked) state.select(state.selected);
  document.documentElement.dataset.ready = "true";
}

main().catch((error) => {
  byId("title").textContent = "This page could not be shown";
  byId("summary").textContent = String(error);
  throw error;
});
