// The selected match, the numbers and the plans: text of users goes into the page as text, never as markup.

const MOST_EVENTS = 300, MOST_KEYS = 12, MOST_TYPES = 50, BINS = 12;

function element(name, attributes = {}, content = []) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...[content].flat());
  return made;
}

function cell(text, kind = "") {
  return element("td", text === null ? { class: "null" } : kind ? { class: kind } : {}, text ?? "NULL");
}

function facts(items, kind = "") {
  const rows = items.map(([name, text]) => element("div", {}, [element("dt", {}, name), element("dd", {}, text ?? "NULL")]));
  return element("dl", { class: `facts ${kind}`.trim() }, rows);
}

function table(caption, head, rows, kinds = []) {
  const cells = head.map((name, place) => element("th", { scope: "col", ...(kinds[place] ? { class: kinds[place] } : {}) }, name));
  return element("table", {}, [
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, cells)),
    element("tbody", {}, rows),
  ]);
}

class Details {
  constructor(state) {
    this.state = state;
    this.body = document.getElementById("details-body");
    this.title = document.getElementById("details-title");
    state.onChange((what) => { if (what !== "view") this.draw(); });
  }

  draw(whole = false) {
    const { state } = this;
    const place = state.position(state.selected);
    document.getElementById("previous").disabled = place <= 0;
    document.getElementById("next").disabled = place < 0 || place >= state.matches.length - 1;
    if (place < 0) {
      this.title.textContent = "No match selected";
      this.body.replaceChildren();
      return;
    }
    const { data, clock, selected } = state;
    const query = data.queries[data.matches.query[selected]];
    const key = state.keyOfMatch(selected);
    const [begin, end] = state.matchRange(selected);
    this.title.textContent = `Match ${count(place + 1)} of ${count(state.matches.length)}`;
    const known = [
      ["Query", query.name], ...(key ? [["Key", state.keyText(key.family, key.key)]] : []), ["Start", clock.text(begin, true)],
      ["End", clock.text(end, true)], ["Length", clock.length(end - begin)], ["Match id", String(data.matches.id[selected])],
    ];
    const parts = [facts(known)];
    if (query.returns.length) {
      const row = data.matches.ordinal[selected];
      parts.push(element("h3", { class: "sub" }, "Returned values"));
      parts.push(facts(query.returns.map(({ name, column }) => [name, valueText(column, row)]), "returned"));
    }
    parts.push(...this.events(query, whole));
    this.body.replaceChildren(...parts);
  }

  events(query, whole) {
    const { state } = this;
    const all = state.eventsOf(state.selected);
    const shown = whole ? all : all.slice(0, MOST_EVENTS);
    const names = [...state.columns.keys()];
    const { shown: lanes, ofType } = state.typeLanes;
    const { codes } = state.data.events.types;
    const rows = shown.map(({ event, component, element: index }) => {
      const dot = element("span", { class: "dot" });
      const colour = state.lanes === "variable" ? `c${component % 8}` : lanes[ofType[codes[event]][0]].colour;
      dot.style.background = `var(--${colour})`;
      const variable = query.components[component].variable + (index ? `[${index}]` : "");
      const head = element("th", { scope: "row" }, [dot, variable]);
      return element("tr", {}, [head, ...names.map((name) => cell(valueText(state.columns.get(name), event)))]);
    });
    const caption = `Events of the match (${count(all.length)})`;
    const scroll = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, table(caption, ["variable", ...names], rows));
    const absent = state.absences(state.selected).map(({ component, begin, end }) => {
      const { types: forbidden, variable } = query.components[component];
      const side = (time, word) => (Number.isFinite(time) ? state.clock.text(time) : word);
      return `no ${forbidden.join(" or ")} ${variable} between ${side(begin, "the beginning")} and ${side(end, "the end")}`;
    });
    const parts = [scroll];
    if (absent.length) parts.push(element("p", { class: "quiet sub" }, absent.join("; ")));
    if (shown.length < all.length) {
      const button = element("button", { type: "button" }, `Show all ${count(all.length)} events`);
      button.addEventListener("click", () => this.draw(true));
      parts.push(button);
    }
    return parts;
  }
}

class Numbers {
  constructor(state) {
    this.state = state;
    state.onChange((what) => { if (what === "filter") this.draw(); });
  }

  draw() {
    const { state } = this;
    const { data, matches, clock } = state;
    const perQuery = new Int32Array(data.queries.length), perType = new Int32Array(data.events.types.names.length);
    for (const match of matches) perQuery[data.matches.query[match]] += 1;
    for (const code of data.events.types.codes) if (code >= 0) perType[code] += 1;
    const bars = (caption, head, rows) => {
      const most = rows.reduce((one, [, number]) => Math.max(one, number), 1);
      const drawn = rows.map(([name, number]) => {
        const meter = element("span", { class: "meter" });
        meter.style.width = `${(100 * number) / most}%`;
        return element("tr", {}, [element("th", { scope: "row" }, name), cell(count(number), "number"), element("td", { class: "fill", "aria-hidden": true }, meter)]);
      });
      const made = table(caption, head, drawn, ["", "number"]);
      made.querySelector("thead tr").append(element("td", { "aria-hidden": true }));
      return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, made);
    };
    const parts = [bars("Matches by query", ["query", "matches"], data.queries.map(({ name }, at) => [name, perQuery[at]]))];
    if (data.families.length) parts.push(bars("Keys with most matches", ["key", "matches"], this.keys()));
    parts.push(bars("Matches over time", ["from", "matches"], this.overTime().map(([time, number]) => [clock.text(time), number])));
    const types = data.events.types.names.map((name, at) => [name, perType[at]]).sort((one, other) => other[1] - one[1]);
    const cut = types.length > MOST_TYPES ? `, the ${MOST_TYPES} most frequent of ${count(types.length)}` : "";
    parts.push(bars(`Events by type${cut}`, ["type", "events"], types.slice(0, MOST_TYPES)));
    document.getElementById("numbers").replaceChildren(...parts);
  }

  keys() {
    const { state } = this;
    const counts = new Map();
    for (const match of state.matches) {
      const key = state.keyOfMatch(match);
      if (key) counts.set(key.family * 2 ** 32 + key.key, (counts.get(key.family * 2 ** 32 + key.key) ?? 0) + 1);
    }
    const most = [...counts].sort((one, other) => other[1] - one[1]).slice(0, MOST_KEYS);
    return most.map(([code, number]) => [state.keyText(Math.floor(code / 2 ** 32), code % 2 ** 32), number]);
  }

  overTime() {
    const { matches, data } = this.state;
    if (!matches.length) return [];
    const first = data.matches.start[matches[0]], last = data.matches.start[matches[matches.length - 1]];
    const size = this.state.clock.step(Math.max(1, (last - first) / BINS));
    const counts = new Int32Array(Math.floor((last - first) / size) + 1);
    for (const match of matches) counts[Math.floor((data.matches.start[match] - first) / size)] += 1;
    return Array.from(counts, (number, at) => [first + at * size, number]);
  }
}

function drawPlans(data) {
  const drawn = data.queries.map(({ name, text, plan }) => element("details", {}, [
    element("summary", {}, name),
    element("h3", {}, "Query"), element("pre", { tabindex: 0, "aria-label": `Query ${name}` }, text),
    element("h3", {}, "Plan"), element("pre", { tabindex: 0, "aria-label": `Plan of ${name}` }, plan.text),
    element("div", { class: "picture", tabindex: 0, role: "region", "aria-label": `Picture of the plan of ${name}` },
      element("img", { src: `data:image/svg+xml;base64,${plan.svg}`, alt: `The plan of ${name}, drawn; the text above says the same` })),
  ]));
  document.getElementById("plans").replaceChildren(...drawn);
}
