// The list of matches: only the rows in sight are elements, whatever there are in all.

const ROW = 48, SPARE = 6;
const TALLEST = 8000000;  // pixels that every browser can scroll over

class MatchList {
  constructor(state) {
    this.state = state;
    this.list = document.getElementById("list");
    this.rows = document.getElementById("rows");
    this.redraw = soon(() => this.draw());
    this.list.addEventListener("scroll", () => this.redraw());
    this.list.addEventListener("keydown", (press) => this.key(press));
    this.rows.addEventListener("click", (press) => {
      const row = press.target.closest(".row");
      if (row) state.select(Number(row.dataset.match));
    });
    new ResizeObserver(() => this.redraw()).observe(this.list);
    state.onChange((what) => {
      if (what === "view") return;
      if (what === "filter") this.measure();
      this.reveal(what === "filter");
      this.redraw();
    });
    this.measure();
  }

  measure() {
    const size = this.state.matches.length;
    this.tall = Math.min(TALLEST, size * ROW);
    this.rows.style.height = `${this.tall}px`;
    this.list.hidden = !size;
    document.getElementById("none").hidden = Boolean(size);
    const all = this.state.data.matches.count;
    document.getElementById("list-count").textContent = size === all ? count(size) : `${count(size)} of ${count(all)}`;
  }

  // Of very many rows, a pixel of the scroll bar stands for several.
  get stretch() {
    const rest = this.tall - this.list.clientHeight;
    return rest > 0 ? (this.state.matches.length * ROW - this.list.clientHeight) / rest : 1;
  }

  // Scrolls so that the selected match is in sight: no further than needed, but from far away (or as a jump) into the middle.
  reveal(jump = false) {
    const place = this.state.position(this.state.selected);
    if (place < 0) return;
    const top = this.list.scrollTop * this.stretch, high = this.list.clientHeight;
    const above = top - place * ROW, below = (place + 1) * ROW - top - high;
    if (jump || Math.max(above, below) > high / 2) this.list.scrollTop = (place * ROW - high / 3) / this.stretch;
    else if (above > 0) this.list.scrollTop = (place * ROW) / this.stretch;
    else if (below > 0) this.list.scrollTop = ((place + 1) * ROW - high) / this.stretch;
  }

  draw() {
    const { matches, selected } = this.state;
    const top = this.list.scrollTop * this.stretch;
    const first = Math.max(0, Math.floor(top / ROW) - SPARE);
    const last = Math.min(matches.length, Math.ceil((top + this.list.clientHeight) / ROW) + SPARE);
    const shift = this.list.scrollTop - top;
    const drawn = [];
    for (let place = first; place < last; place++) drawn.push(this.row(matches[place], place, place * ROW + shift));
    this.rows.replaceChildren(...drawn);
    const place = this.state.position(selected);
    if (place >= first && place < last) this.list.setAttribute("aria-activedescendant", `match-${selected}`);
    else this.list.removeAttribute("aria-activedescendant");
  }

  row(match, place, top) {
    const { data, clock, selected, matches } = this.state;
    const [begin, end] = this.state.matchRange(match);
    const key = this.state.keyOfMatch(match);
    const names = [data.queries.length > 1 ? data.queries[data.matches.query[match]].name : null, key && this.state.keyText(key.family, key.key)];
    const events = data.matches.offsets[match + 1] - data.matches.offsets[match];
    const row = element("div", {
      class: "row", role: "option", id: `match-${match}`, "data-match": match, "aria-selected": match === selected,
      "aria-setsize": matches.length, "aria-posinset": place + 1,
    }, [
      element("span", {}, clock.text(begin)),
      element("span", { class: "quiet" }, plural(events, "event", "events")),
      element("span", { class: "quiet" }, names.filter(Boolean).join(" · ") || `match ${count(place + 1)}`),
      element("span", { class: "quiet" }, clock.length(end - begin)),
    ]);
    row.style.top = `${top}px`;
    return row;
  }

  key(press) {
    const page = Math.max(1, Math.floor(this.list.clientHeight / ROW) - 1);
    const act = {
      ArrowDown: () => this.state.step(1), ArrowUp: () => this.state.step(-1),
      PageDown: () => this.state.step(page), PageUp: () => this.state.step(-page),
      Home: () => this.state.selectAt(0), End: () => this.state.selectAt(this.state.matches.length - 1),
      Enter: () => document.getElementById("details-title").focus(),
    }[press.key];
    if (!act || press.ctrlKey || press.metaKey || press.altKey) return;
    press.preventDefault();
    act();
  }
}
