// What is filtered, selected and in view; who wants to know is told after every change.

const MOST_LANES = 14;

// The lanes of types: { shown, ofType }. Types that patterns name come first; those that are too many share the last lane.
function typeLanes({ queries, events }) {
  const { names } = events.types;
  const known = new Set(names);
  const patterns = queries.flatMap(({ components }) => components.flatMap(({ types }) => types));
  const order = [...new Set([...patterns.filter((name) => known.has(name)), ...names])];
  const own = order.length > MOST_LANES ? order.slice(0, MOST_LANES - 1) : order;
  const shown = own.map((name, place) => ({ label: name, detail: "", colour: `c${place % 8}` }));
  if (own.length < order.length) shown.push({ label: `${count(order.length - own.length)} other types`, detail: "", colour: "c7" });
  const ofType = names.map((name) => [own.includes(name) ? own.indexOf(name) : shown.length - 1]);
  return { shown, ofType };
}

class State {
  constructor(data) {
    this.data = data;
    this.typeLanes = typeLanes(data);
    this.clock = new Clock(data.time);
    this.columns = new Map(data.events.columns.map(({ name, column }) => [name, column]));
    this.query = -1;
    this.key = null;  // { family, key }
    this.from = null;
    this.until = null;
    this.lanes = "type";
    this.selected = -1;
    this.listeners = [];
    this.extent = this.wholeRange();
    this.view = this.extent;
    this.filter();
  }

  onChange(listener) { this.listeners.push(listener); }
  tell(what) { for (const listener of this.listeners) listener(what); }

  wholeRange() {
    const times = this.data.events.times;
    const begin = times.length ? times[0] : 0, end = times.length ? times[times.length - 1] : 1;
    const pad = (end - begin) * 0.03 || this.clock.perSecond;
    return [begin - pad, end + pad];
  }

  // The matches that pass the filters, in the order of their start; the events of the key, or null for all.
  filter() {
    const { matches, queries, families, events } = this.data;
    const passing = new Int32Array(matches.count);
    let size = 0;
    for (let match = 0; match < matches.count; match++) {
      if (this.query >= 0 && matches.query[match] !== this.query) continue;
      if (this.key && (queries[matches.query[match]].family !== this.key.family || matches.key[match] !== this.key.key)) continue;
      if (this.from !== null && matches.start[match] < this.from) continue;
      if (this.until !== null && matches.end[match] >= this.until) continue;
      passing[size++] = match;
    }
    this.matches = passing.slice(0, size);
    this.events = null;
    if (this.key) {
      const codes = families[this.key.family].codes;
      const own = new Int32Array(events.count);
      let found = 0;
      for (let event = 0; event < events.count; event++) if (codes[event] === this.key.key) own[found++] = event;
      this.events = own.slice(0, found);
    }
  }

  setFilter(changes) {
    Object.assign(this, changes);
    this.filter();
    const kept = this.position(this.selected) >= 0;
    if (!kept) this.selected = this.matches.length ? this.matches[0] : -1;
    if (this.key || this.from !== null || this.until !== null) this.fit(this.filteredRange());
    this.tell("filter");
  }

  filteredRange() {
    const events = this.events, times = this.data.events.times;
    const begin = this.from ?? (events?.length ? times[events[0]] : this.extent[0]);
    const end = this.until ?? (events?.length ? times[events[events.length - 1]] : this.extent[1]);
    const pad = (end - begin) * 0.04 || this.clock.perSecond;
    return [begin - pad, end + pad];
  }

  // The place of a match in the list; -1 if it is not in it.
  position(match) {
    const place = lowerBound(this.matches.length, (at) => this.matches[at], match);
    return match >= 0 && this.matches[place] === match ? place : -1;
  }

  selectAt(place) {
    if (!this.matches.length) return;
    this.select(this.matches[Math.max(0, Math.min(this.matches.length - 1, place))]);
  }

  step(by) { this.selectAt(this.selected < 0 ? 0 : this.position(this.selected) + by); }

  select(match) {
    this.selected = match;
    const [begin, end] = this.matchRange(match);
    const span = Math.max(this.view[1] - this.view[0], (end - begin) * 1.25);
    if (begin < this.view[0] || end > this.view[1]) this.fit([(begin + end - span) / 2, (begin + end + span) / 2]);
    this.tell("selection");
  }

  matchRange(match) { return [this.data.matches.start[match], this.data.matches.end[match]]; }

  fit([begin, end]) {
    const [first, last] = this.extent;
    const least = Math.min(last - first, Math.max(4, (last - first) * 1e-9));
    const span = Math.min(last - first, Math.max(least, end - begin));
    const left = Math.min(Math.max(first, (begin + end - span) / 2), last - span);
    this.view = [left, left + span];
    this.tell("view");
  }

  zoom(factor, around = (this.view[0] + this.view[1]) / 2) {
    this.fit([around - (around - this.view[0]) * factor, around + (this.view[1] - around) * factor]);
  }

  pan(share) {
    const by = (this.view[1] - this.view[0]) * share;
    this.fit([this.view[0] + by, this.view[1] + by]);
  }

  zoomToMatch() {
    if (this.selected < 0) return;
    const [begin, end] = this.matchRange(this.selected);
    const pad = (end - begin) * 0.6 || (this.extent[1] - this.extent[0]) * 0.01;
    this.fit([begin - pad, end + pad]);
  }

  // The events of a match: [{ event, component, element }], `element` counted from 1 where the variable holds several.
  eventsOf(match) {
    const { offsets, rows, variables, query } = this.data.matches;
    const components = this.data.queries[query[match]].components;
    const found = [];
    for (let place = offsets[match]; place < offsets[match + 1]; place++) {
      const component = variables[place];
      const before = found[found.length - 1];
      const element = before && before.component === component ? before.element + 1 : 1;
      found.push({ event: rows[place], component, element: components[component].kleene ? element : 0 });
    }
    return found;
  }

  // Where the match's negative components must not have occurred: [{ component, begin, end }].
  absences(match) {
    const query = this.data.queries[this.data.matches.query[match]];
    const times = this.data.events.times;
    const spans = new Map();
    for (const { event, component } of this.eventsOf(match)) {
      const span = spans.get(component) ?? [Infinity, -Infinity];
      spans.set(component, [Math.min(span[0], times[event]), Math.max(span[1], times[event])]);
    }
    const branch = query.branches.find(({ positives }) => positives.length === spans.size && positives.every((own) => spans.has(own)));
    const [start, end] = this.matchRange(match);
    const window = query.window ?? Infinity;
    return (branch?.negatives ?? []).map(({ component, after, before }) => ({
      component,
      begin: !after.length ? end - window : Math.max(...after.map((own) => spans.get(own)[1])),
      end: !before.length ? start + window : Math.min(...before.map((own) => spans.get(own)[0])),
    }));
  }

  keyText(family, key) {
    const { attributes, first } = this.data.families[family];
    return attributes.map((name) => `${name}=${valueText(this.columns.get(name), first[key]) ?? "NULL"}`).join(", ");
  }

  keyOfMatch(match) {
    const family = this.data.queries[this.data.matches.query[match]].family;
    const key = this.data.matches.key[match];
    return family < 0 || key < 0 ? null : { family, key };
  }

  // All keys as texts, those with most matches first; made when they are asked for the first time.
  allKeys() {
    if (this.keyList) return this.keyList;
    const { families, matches, queries } = this.data;
    const counts = families.map(({ first }) => new Int32Array(first.length));
    for (let match = 0; match < matches.count; match++) {
      const family = queries[matches.query[match]].family;
      if (family >= 0 && matches.key[match] >= 0) counts[family][matches.key[match]] += 1;
    }
    this.keyList = families.flatMap(({ first }, family) =>
      Array.from(first, (_, key) => ({ family, key, count: counts[family][key], text: this.keyText(family, key) })));
    this.keyList.sort((one, other) => other.count - one.count);
    return this.keyList;
  }

  findKey(text) {
    const keys = this.allKeys();
    return keys.find((item) => item.text === text) ?? keys.find((item) => item.text.endsWith(`=${text}`)) ?? null;
  }

  // The state as a link, and back.
  hash() {
    const parts = new URLSearchParams();
    if (this.query >= 0) parts.set("query", this.data.queries[this.query].name);
    if (this.key) parts.set("key", this.keyText(this.key.family, this.key.key));
    if (this.from !== null) parts.set("from", this.clock.text(this.from));
    if (this.until !== null) parts.set("until", this.clock.text(this.until));
    if (this.lanes !== "type") parts.set("lanes", this.lanes);
    if (this.selected >= 0) parts.set("match", String(this.data.matches.id[this.selected]));
    return `#${parts}`;
  }

  readHash(hash) {
    const parts = new URLSearchParams(hash.replace(/^#/, ""));
    const time = (name) => (parts.has(name) ? this.clock.parse(parts.get(name)) : null);
    const key = parts.has("key") ? this.findKey(parts.get("key")) : null;
    this.query = this.data.queries.findIndex(({ name }) => name === parts.get("query"));
    this.key = key && { family: key.family, key: key.key };
    this.from = time("from");
    this.until = time("until");
    this.lanes = parts.get("lanes") === "variable" ? "variable" : "type";
    this.filter();
    const id = /^-?\d+$/.test(parts.get("match") ?? "") ? BigInt(parts.get("match")) : null;
    const wanted = id === null ? -1 : this.data.matches.id.indexOf(id);
    this.selected = this.position(wanted) >= 0 ? wanted : this.matches.length ? this.matches[0] : -1;
    if (this.key || this.from !== null || this.until !== null) this.view = this.filteredRange();
    return wanted >= 0;
  }
}
