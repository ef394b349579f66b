// The timeline: events on lanes, matches as arcs over them. What is drawn is what is in view, at most a dot per pixel and lane.

const DENSITY = 34, AXIS = 24, DOT = 4.5;
const MOST_ARCS = 150, MOST_PLAIN_DOTS = 3000;

class Timeline {
  constructor(state) {
    this.state = state;
    this.plot = document.getElementById("plot");
    this.chart = document.getElementById("chart");
    this.overview = document.getElementById("overview");
    this.tip = document.getElementById("tip");
    this.redraw = soon(() => this.draw());
    state.onChange(() => this.redraw());
    new ResizeObserver(() => this.redraw()).observe(this.plot);
    this.listen();
  }

  colours() {
    const style = getComputedStyle(document.documentElement);
    return new Proxy({}, { get: (_, name) => style.getPropertyValue(`--${name}`).trim() });
  }

  // The query whose variables are lanes: the one that is filtered, else that of the selected match.
  shownQuery() {
    const { query, selected, data } = this.state;
    return data.queries[query >= 0 ? query : selected >= 0 ? data.matches.query[selected] : 0];
  }

  // Lanes, and for each type the lanes of its events.
  lanes() {
    const { data, lanes } = this.state;
    const { names } = data.events.types;
    if (lanes === "variable") {
      const components = this.shownQuery().components;
      const shown = components.map(({ variable, types, kleene, negated }, place) => ({
        label: negated ? `no ${variable}` : kleene ? `${variable}[ ]` : variable, detail: types.join(", "), colour: `c${place % 8}`,
      }));
      const ofType = names.map((name) => components.flatMap(({ types }, lane) => (types.includes(name) ? [lane] : [])));
      return { shown, ofType, ofComponent: (component) => component };
    }
    return { ...this.state.typeLanes, ofComponent: null };
  }

  prepare(canvas, height) {
    const width = canvas.clientWidth || canvas.parentElement.clientWidth;
    const scale = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = "12px system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
    pen.textBaseline = "middle";
    return [pen, width];
  }

  draw() {
    const colours = this.colours();
    const lanes = this.lanes();
    const laneHeight = lanes.shown.length > 9 ? 26 : 36;
    const height = DENSITY + lanes.shown.length * laneHeight + AXIS;
    const [pen, width] = this.prepare(this.chart, height);
    const gutter = Math.round(Math.max(84, Math.min(150, width * 0.15)));
    const [begin, end] = this.state.view;
    const right = width - 8;
    const x = (time) => gutter + ((time - begin) / (end - begin)) * (right - gutter);
    const y = (lane) => DENSITY + (lane + 0.5) * laneHeight;
    this.area = { gutter, right, width, height, laneHeight, x, y, lanes, time: (at) => begin + ((at - gutter) / (right - gutter)) * (end - begin) };
    this.drawLanes(pen, colours);
    this.drawAxis(pen, colours);
    pen.save();
    pen.beginPath();
    pen.rect(gutter, 0, right - gutter, height);
    pen.clip();
    const most = this.drawDensity(pen, colours);
    if (this.state.selected >= 0) this.drawAbsences(pen, colours);
    this.drawArcs(pen, colours);
    this.drawEvents(pen, colours);
    if (this.state.selected >= 0) this.drawSelected(pen, colours);
    pen.restore();
    pen.fillStyle = colours.quiet;
    pen.fillText(shortened(pen, `matches ≤ ${count(most)}`, gutter - 6), 0, DENSITY / 2 + 4);
    this.drawOverview(colours);
  }

  drawLanes(pen, colours) {
    const { gutter, right, y, lanes, laneHeight, width } = this.area;
    lanes.shown.forEach(({ label, detail, colour }, lane) => {
      pen.strokeStyle = colours.line;
      pen.beginPath();
      pen.moveTo(gutter, y(lane));
      pen.lineTo(right, y(lane));
      pen.stroke();
      pen.fillStyle = colours[colour];
      pen.beginPath();
      pen.arc(5, y(lane), 4, 0, 7);
      pen.fill();
      pen.fillStyle = colours.ink;
      const shift = detail && laneHeight > 30 && width > 500 ? 7 : 0;
      pen.fillText(shortened(pen, label, gutter - 22), 15, y(lane) - shift);
      pen.fillStyle = colours.quiet;
      if (shift) pen.fillText(shortened(pen, detail, gutter - 22), 15, y(lane) + shift);
    });
  }

  drawAxis(pen, colours) {
    const { gutter, right, height, x } = this.area;
    const [begin, end] = this.state.view;
    const clock = this.state.clock;
    const widest = pen.measureText(clock.unit ? "00:00:00.000" : clock.text(end)).width + 24;
    pen.fillStyle = colours.quiet;
    pen.strokeStyle = colours.line;
    for (const [time, label] of clock.marks(begin, end, Math.max(1, (right - gutter) / widest))) {
      const at = x(time);
      if (at < gutter || at > right) continue;
      pen.beginPath();
      pen.moveTo(at, DENSITY);
      pen.lineTo(at, height - AXIS + 4);
      pen.stroke();
      const half = pen.measureText(label).width / 2;
      pen.fillText(label, Math.max(gutter, Math.min(right - 2 * half, at - half)), height - AXIS / 2 + 2);
    }
    if (clock.unit) pen.fillText(clock.text((begin + end) / 2).slice(0, 10), 0, height - AXIS / 2 + 2);
  }

  // How many matches there are at each pixel; the most of them.
  drawDensity(pen, colours) {
    const { gutter, right, x } = this.area;
    const { matches, data } = this.state;
    const size = Math.max(1, Math.ceil(right - gutter));
    const change = new Int32Array(size + 2);
    for (const match of matches) {
      const first = Math.floor(x(data.matches.start[match]) - gutter), last = Math.floor(x(data.matches.end[match]) - gutter);
      if (last < 0 || first >= size) continue;
      change[Math.max(0, first)] += 1;
      change[Math.min(size, last) + 1] -= 1;
    }
    let most = 1, now = 0;
    for (let at = 0; at < size; at++) most = Math.max(most, (now += change[at]));
    now = 0;
    pen.fillStyle = colours.density;
    for (let at = 0; at < size; at++) {
      now += change[at];
      const high = (now / most) * (DENSITY - 10);
      if (now) pen.fillRect(gutter + at, DENSITY - 5 - Math.max(1, high), 1, Math.max(1, high));
    }
    return matches.length ? most : 0;
  }

  // Where the places of a match are; `lane` may be given by its variable.
  points(match) {
    const { x, y, lanes } = this.area;
    const { times, types } = this.state.data.events;
    const sameQuery = this.state.data.queries[this.state.data.matches.query[match]] === this.shownQuery();
    return this.state.eventsOf(match).map((item) => {
      const ofType = lanes.ofType[types.codes[item.event]] ?? [];
      const lane = lanes.ofComponent && sameQuery ? lanes.ofComponent(item.component) : ofType[0] ?? 0;
      return { ...item, lane, time: times[item.event], x: x(times[item.event]), y: y(lane) };
    });
  }

  // The points of each variable, in the order in which they begin.
  groups(match) {
    const groups = new Map();
    for (const point of this.points(match)) {
      if (!groups.has(point.component)) groups.set(point.component, []);
      groups.get(point.component).push(point);
    }
    return [...groups.values()].sort((one, other) => one[0].time - other[0].time);
  }

  trace(pen, groups) {
    pen.beginPath();
    for (let place = 1; place < groups.length; place++) {
      const from = groups[place - 1][groups[place - 1].length - 1], to = groups[place][0];
      const middle = (from.x + to.x) / 2;
      pen.moveTo(from.x, from.y);
      if (from.lane === to.lane) {
        pen.quadraticCurveTo(middle, from.y - Math.min(this.area.laneHeight * 0.9, 10 + Math.abs(to.x - from.x) * 0.2), to.x, to.y);
      } else {
        pen.bezierCurveTo(middle, from.y, middle, to.y, to.x, to.y);
      }
    }
    pen.stroke();
  }

  // The other matches in view, if they are few enough to tell apart.
  drawArcs(pen, colours) {
    const { matches, view, data, selected } = this.state;
    const seen = [];
    for (const match of matches) {
      if (data.matches.start[match] > view[1]) break;  // they are in the order of their start
      if (data.matches.end[match] < view[0] || match === selected) continue;
      if (data.matches.offsets[match + 1] - data.matches.offsets[match] > 500) continue;
      seen.push(match);
      if (seen.length > MOST_ARCS) return;
    }
    pen.strokeStyle = colours.arc;
    pen.lineWidth = 1;
    pen.globalAlpha = seen.length > 40 ? 0.35 : 0.6;
    for (const match of seen) this.trace(pen, this.groups(match));
    pen.globalAlpha = 1;
  }

  drawEvents(pen, colours) {
    const { area: { x, y, gutter, right, lanes }, state } = this;
    const { times, types, count: total } = state.data.events;
    const own = state.events;
    const size = own ? own.length : total;
    const at = own ? (place) => times[own[place]] : (place) => times[place];
    const margin = this.area.time(gutter + DOT) - this.area.time(gutter);
    const first = lowerBound(size, at, state.view[0] - margin), last = lowerBound(size, at, state.view[1] + margin);
    const width = Math.ceil(right - gutter) + 2;
    const taken = last - first > MOST_PLAIN_DOTS ? new Uint8Array(width * lanes.shown.length) : null;
    const radius = last - first > MOST_PLAIN_DOTS ? 2 : last - first > 400 ? 3 : DOT;
    const key = state.selected >= 0 ? state.keyOfMatch(state.selected) : null;
    const codes = key && !own ? state.data.families[key.family].codes : null;
    const paint = lanes.shown.map(({ colour }) => colours[colour]);
    for (let place = first; place < last; place++) {
      const event = own ? own[place] : place;
      const column = Math.floor(x(times[event]) - gutter);
      for (const lane of lanes.ofType[types.codes[event]] ?? []) {
        if (taken) {
          const cell = lane * width + Math.max(0, Math.min(width - 1, column));
          if (taken[cell]) continue;
          taken[cell] = 1;
        }
        // Events of other keys than the selected match's stay in the background.
        pen.globalAlpha = codes && codes[event] !== key.key ? 0.28 : 0.95;
        pen.fillStyle = paint[lane];
        pen.beginPath();
        pen.arc(x(times[event]), y(lane), radius, 0, 7);
        pen.fill();
      }
    }
    pen.globalAlpha = 1;
  }

  drawAbsences(pen, colours) {
    const { x, y, lanes, laneHeight, gutter, right } = this.area;
    const { names } = this.state.data.events.types;
    const match = this.state.selected;
    const query = this.state.data.queries[this.state.data.matches.query[match]];
    for (const { component, begin, end } of this.state.absences(match)) {
      const { types, variable } = query.components[component];
      const ofTypes = types.flatMap((name) => lanes.ofType[names.indexOf(name)] ?? []);
      const shown = lanes.ofComponent && query === this.shownQuery() ? [component] : ofTypes;
      const left = Math.max(gutter - 2, x(begin)), wide = Math.min(right + 2, x(end)) - left;
      if (wide <= 0) continue;
      for (const lane of new Set(shown.length ? shown : lanes.shown.keys())) {
        const top = y(lane) - laneHeight * 0.32, high = laneHeight * 0.64;
        pen.save();
        pen.beginPath();
        pen.rect(left, top, wide, high);
        pen.clip();
        pen.strokeStyle = colours.absent;
        pen.globalAlpha = 0.55;
        for (let at = left - high; at < left + wide; at += 7) {
          pen.beginPath();
          pen.moveTo(at, top + high);
          pen.lineTo(at + high, top);
          pen.stroke();
        }
        pen.restore();
        pen.strokeStyle = colours.absent;
        pen.strokeRect(left, top, wide, high);
        const label = `no ${types.join(" or ")} ${variable}`;
        const long = pen.measureText(label).width + 10;
        if (long > wide) continue;
        pen.fillStyle = colours.panel;
        pen.fillRect(left + 4, y(lane) - 8, long, 16);
        pen.fillStyle = colours.absent;
        pen.fillText(label, left + 9, y(lane));
      }
    }
  }

  drawSelected(pen, colours) {
    const groups = this.groups(this.state.selected);
    const components = this.state.data.queries[this.state.data.matches.query[this.state.selected]].components;
    pen.strokeStyle = colours.accent;
    pen.lineWidth = 1.5;
    for (const group of groups) {
      if (!components[group[0].component].kleene) continue;
      for (const lane of new Set(group.map((point) => point.lane))) {
        const own = group.filter((point) => point.lane === lane);
        const left = own[0].x - 11, top = own[0].y - 13, wide = own[own.length - 1].x - left + 11;
        pen.beginPath();
        pen.roundRect(left, top, wide, 26, 13);
        pen.globalAlpha = 0.7;
        pen.fillStyle = colours["accent-soft"];
        pen.fill();
        pen.globalAlpha = 1;
        pen.stroke();
      }
    }
    pen.lineWidth = 2.5;
    this.trace(pen, groups);
    const { types } = this.state.data.events;
    for (const group of groups) this.drawGroup(pen, colours, group, components, types);
    pen.lineWidth = 1;
  }

  drawGroup(pen, colours, group, components, types) {
    let labelled = -Infinity, drawn = -Infinity;
    for (const point of group) {
      if (point.x - drawn < 0.5) continue;
      drawn = point.x;
      const lane = this.area.lanes.ofComponent ? point.lane : (this.area.lanes.ofType[types.codes[point.event]] ?? [0])[0];
      pen.fillStyle = colours[this.area.lanes.shown[lane]?.colour ?? "c7"];
      pen.strokeStyle = colours.accent;
      pen.lineWidth = 2.5;
      pen.beginPath();
      pen.arc(point.x, point.y, DOT + 1.5, 0, 7);
      pen.fill();
      pen.stroke();
      const label = components[point.component].variable + (point.element ? `[${point.element}]` : "");
      const wide = pen.measureText(label).width;
      if (point.x - wide / 2 <= labelled + 6) continue;
      labelled = point.x + wide / 2;
      const down = this.area.laneHeight > 30 ? 15 : 12;
      pen.fillStyle = colours.panel;
      pen.globalAlpha = 0.85;
      pen.fillRect(point.x - wide / 2 - 2, point.y - down - 8, wide + 4, 14);
      pen.globalAlpha = 1;
      pen.fillStyle = colours.ink;
      pen.fillText(label, point.x - wide / 2, point.y - down);
    }
  }

  // Events and matches over the whole time, and what of it is in view.
  drawOverview(colours) {
    const [pen, width] = this.prepare(this.overview, 44);
    const { extent, view, data, matches } = this.state;
    const bins = Math.max(1, Math.floor(width / 4));
    const bin = (time) => Math.min(bins - 1, Math.max(0, Math.floor(((time - extent[0]) / (extent[1] - extent[0])) * bins)));
    const events = new Int32Array(bins), starts = new Int32Array(bins);
    const own = this.state.events;
    for (let place = 0; place < (own ? own.length : data.events.count); place++) events[bin(data.events.times[own ? own[place] : place])] += 1;
    for (const match of matches) starts[bin(data.matches.start[match])] += 1;
    const draw = (counts, colour, base, high) => {
      const most = counts.reduce((one, other) => Math.max(one, other), 1);
      pen.fillStyle = colour;
      counts.forEach((number, at) => {
        const tall = number ? Math.max(2, (number / most) * high) : 0;
        pen.fillRect(at * 4, base - tall, 3, tall);
      });
    };
    draw(events, colours.arc, 43, 18);
    draw(starts, colours.accent, 22, 20);
    const at = (time) => ((time - extent[0]) / (extent[1] - extent[0])) * width;
    pen.fillStyle = colours.accent;
    pen.globalAlpha = 0.12;
    pen.fillRect(at(view[0]), 0, at(view[1]) - at(view[0]), 44);
    pen.globalAlpha = 1;
    pen.strokeStyle = colours.accent;
    pen.strokeRect(at(view[0]) + 0.5, 0.5, Math.max(2, at(view[1]) - at(view[0]) - 1), 43);
  }

  // The event near a place of the chart; -1 if there is none.
  eventAt(left, top) {
    const { x, y, lanes, time } = this.area;
    const { times, types, count: total } = this.state.data.events;
    const own = this.state.events;
    const size = own ? own.length : total;
    const at = own ? (place) => times[own[place]] : (place) => times[place];
    let best = -1, least = 81;
    for (let place = lowerBound(size, at, time(left - 9)); place < size && at(place) <= time(left + 9); place++) {
      const event = own ? own[place] : place;
      for (const lane of lanes.ofType[types.codes[event]] ?? []) {
        const distance = (x(times[event]) - left) ** 2 + (y(lane) - top) ** 2;
        if (distance < least) [best, least] = [event, distance];
      }
    }
    return best;
  }

  // Selects the next match that has the event.
  selectMatchOf(event) {
    const { matches, data, selected } = this.state;
    const has = (match) => data.matches.rows.subarray(data.matches.offsets[match], data.matches.offsets[match + 1]).includes(event);
    const from = this.state.position(selected) + 1;
    for (let step = 0; step < matches.length; step++) {
      const match = matches[(from + step) % matches.length];
      if (has(match)) return this.state.select(match);
    }
    announce("This event is in no match.");
  }

  showTip(event, left, top) {
    this.tip.hidden = event < 0;
    if (event < 0) return;
    const lines = [...this.state.columns].slice(0, 8).map(([name, column]) => `${name}: ${valueText(column, event) ?? "NULL"}`);
    this.tip.textContent = lines.join("\n");
    this.tip.style.left = `${Math.min(left + 14, this.area.width - 200)}px`;
    this.tip.style.top = `${top + 14}px`;
  }

  listen() {
    const { plot, overview, state } = this;
    let dragged = null;
    plot.addEventListener("pointerdown", (press) => {
      dragged = { at: press.clientX, view: state.view, moved: false };
      plot.setPointerCapture(press.pointerId);
    });
    plot.addEventListener("pointermove", (move) => {
      const box = plot.getBoundingClientRect();
      if (!dragged) return this.showTip(this.eventAt(move.clientX - box.left, move.clientY - box.top), move.clientX - box.left, move.clientY - box.top);
      const by = this.area.time(dragged.at) - this.area.time(move.clientX);
      if (Math.abs(move.clientX - dragged.at) > 4) dragged.moved = true;
      if (!dragged.moved) return;
      const scale = (dragged.view[1] - dragged.view[0]) / (state.view[1] - state.view[0]);
      state.fit([dragged.view[0] + by * scale, dragged.view[1] + by * scale]);
    });
    plot.addEventListener("pointerup", (release) => {
      const box = plot.getBoundingClientRect();
      const event = dragged && !dragged.moved ? this.eventAt(release.clientX - box.left, release.clientY - box.top) : -1;
      dragged = null;
      if (event >= 0) this.selectMatchOf(event);
    });
    plot.addEventListener("pointercancel", () => { dragged = null; });
    plot.addEventListener("pointerleave", () => this.showTip(-1));
    plot.addEventListener("wheel", (turn) => {
      if (!turn.ctrlKey && !turn.metaKey && Math.abs(turn.deltaX) <= Math.abs(turn.deltaY)) return;  // the page scrolls
      turn.preventDefault();
      const at = this.area.time(turn.clientX - plot.getBoundingClientRect().left);
      if (turn.ctrlKey || turn.metaKey) state.zoom(turn.deltaY > 0 ? 1.25 : 0.8, at); else state.pan(turn.deltaX / 800);
    }, { passive: false });
    const toPlace = (press) => {
      const box = overview.getBoundingClientRect();
      const time = state.extent[0] + ((press.clientX - box.left) / box.width) * (state.extent[1] - state.extent[0]);
      const half = (state.view[1] - state.view[0]) / 2;
      state.fit([time - half, time + half]);
    };
    overview.addEventListener("pointerdown", (press) => { overview.setPointerCapture(press.pointerId); toPlace(press); });
    overview.addEventListener("pointermove", (move) => { if (move.buttons) toPlace(move); });
    plot.addEventListener("keydown", (press) => {
      const act = {
        ArrowLeft: () => state.pan(-0.2), ArrowRight: () => state.pan(0.2), ArrowUp: () => state.step(-1), ArrowDown: () => state.step(1),
        "+": () => state.zoom(0.6), "=": () => state.zoom(0.6), "-": () => state.zoom(1 / 0.6), f: () => state.zoomToMatch(), 0: () => state.fit(state.extent),
      }[press.key];
      if (!act || press.ctrlKey || press.metaKey || press.altKey) return;
      press.preventDefault();
      act();
    });
  }
}

function shortened(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let kept = text;
  while (kept && pen.measureText(`${kept}…`).width > width) kept = kept.slice(0, -1);
  return `${kept}…`;
}
