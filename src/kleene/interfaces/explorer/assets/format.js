// Times, lengths of time and counts as people read them, and the marks of a time axis.

const PER_SECOND = { s: 1n, ms: 1000n, us: 1000000n, ns: 1000000000n };
const FURTHEST = 8640000000000n;  // seconds from 1970 that a Date can hold

function floorDivide(value, by) {
  const quotient = value / by;
  return value % by < 0n ? quotient - 1n : quotient;
}

const zoneFormats = new Map();

// How many seconds the clocks of a zone are ahead of UTC at a moment.
function zoneOffset(zone, seconds) {
  const fixed = /^([+-])(\d\d):?(\d\d)$/.exec(zone ?? "");
  if (fixed) return (fixed[1] === "-" ? -1 : 1) * (Number(fixed[2]) * 3600 + Number(fixed[3]) * 60);
  if (!zone || zone === "UTC") return 0;
  if (!zoneFormats.has(zone)) {
    const fields = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" };
    try {
      zoneFormats.set(zone, new Intl.DateTimeFormat("en-US", { timeZone: zone, hourCycle: "h23", ...fields }));
    } catch {
      zoneFormats.set(zone, null);  // the browser does not know the zone: times are shown in UTC, and say so
    }
  }
  const format = zoneFormats.get(zone);
  if (format === null) return 0;
  const part = Object.fromEntries(format.formatToParts(new Date(seconds * 1000)).map((item) => [item.type, Number(item.value)]));
  return Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second) / 1000 - seconds;
}

const two = (number) => String(number).padStart(2, "0");

function offsetText(offset) {
  const minutes = Math.abs(Math.round(offset / 60));
  return `${offset < 0 ? "-" : "+"}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

// A moment of a timestamp column: a bigint in its unit. With a zone it ends with how far that is ahead of UTC.
function momentText(value, unit, zone, withZone = true) {
  const per = PER_SECOND[unit];
  const seconds = floorDivide(value, per);
  if (seconds > FURTHEST || seconds < -FURTHEST) return `${value} ${unit}`;
  const offset = zoneOffset(zone, Number(seconds));
  const date = new Date((Number(seconds) + offset) * 1000);
  const fraction = String(value - seconds * per).padStart(String(per).length - 1, "0").replace(/0+$/, "");
  const day = `${String(date.getUTCFullYear()).padStart(4, "0")}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
  const clock = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}`;
  return `${day} ${clock}${fraction ? `.${fraction}` : ""}${zone && withZone ? offsetText(offset) : ""}`;
}

// A length of time, exactly: 1 d 2 h 3 min 4.5 s.
function durationText(value, unit) {
  const per = PER_SECOND[unit];
  const size = value < 0n ? -value : value;
  const seconds = size / per;
  const fraction = String(size % per).padStart(String(per).length - 1, "0").replace(/0+$/, "");
  const parts = [[seconds / 86400n, "d"], [(seconds / 3600n) % 24n, "h"], [(seconds / 60n) % 60n, "min"]];
  const words = parts.filter(([number]) => number).map(([number, name]) => `${number} ${name}`);
  if (seconds % 60n || fraction || !words.length) words.push(`${seconds % 60n}${fraction ? `.${fraction}` : ""} s`);
  return `${value < 0n ? "-" : ""}${words.join(" ")}`;
}

const count = (number) => number.toLocaleString("en");
const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : many}`;

// The clock of the page: times are numbers after the first event, in the unit of the time column (none for plain numbers).
class Clock {
  constructor({ unit, zone, origin }) {
    this.unit = unit;
    this.zone = zone;
    this.origin = BigInt(origin);
    this.perSecond = unit ? Number(PER_SECOND[unit]) : 1;
  }

  text(time, withZone = false) {
    const value = this.origin + BigInt(Math.round(time));
    return this.unit ? momentText(value, this.unit, this.zone, withZone) : String(value);
  }

  length(time) {
    if (!this.unit) return count(time);
    const seconds = time / this.perSecond;
    if (seconds === 0) return "0 s";
    if (seconds < 1e-3) return `${+(seconds * 1e6).toPrecision(4)} µs`;
    if (seconds < 1) return `${+(seconds * 1e3).toPrecision(4)} ms`;
    const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
    const first = parts.findIndex(([size]) => seconds >= size);
    const [size, name] = parts[first];
    const whole = Math.floor(seconds / size);
    if (first === 3) return `${+seconds.toPrecision(4)} s`;
    const [smaller, smallName] = parts[first + 1];
    const rest = Math.floor((seconds - whole * size) / smaller);
    return rest ? `${whole} ${name} ${rest} ${smallName}` : `${whole} ${name}`;
  }

  // What a person typed, as a time of the page; null if it is none.
  parse(text) {
    const written = text.trim();
    if (!this.unit) return /^-?\d+$/.test(written) ? Number(BigInt(written) - this.origin) : null;
    const found = /^(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?$/.exec(written);
    if (!found) return null;
    const [, year, month, day, hour = "0", minute = "0", second = "0", fraction = ""] = found;
    const utc = Date.UTC(+year, +month - 1, +day, +hour, +minute, +second) / 1000;
    // The zone's offset at a moment that is known only with it: twice is enough but at the hour of a change.
    const guess = utc - zoneOffset(this.zone, utc);
    const seconds = utc - zoneOffset(this.zone, guess);
    const digits = String(PER_SECOND[this.unit]).length - 1;
    const parts = BigInt((fraction.padEnd(9, "0")).slice(0, digits) || "0");
    return Number(BigInt(seconds) * PER_SECOND[this.unit] + parts - this.origin);
  }

  // Marks of an axis from `begin` to `end`, about `wanted` of them: [time, label].
  marks(begin, end, wanted) {
    const step = this.step((end - begin) / Math.max(1, wanted));
    // Marks are whole steps of the zone's own clock.
    const originSeconds = this.unit ? Number(floorDivide(this.origin, PER_SECOND[this.unit])) : 0;
    const middle = originSeconds + (begin + end) / 2 / this.perSecond;
    const ahead = this.unit && Math.abs(middle) < Number(FURTHEST) ? zoneOffset(this.zone, Math.round(middle)) * this.perSecond : 0;
    const whole = BigInt(Math.max(1, Math.round(step)));
    const base = Number(((this.origin + BigInt(ahead)) % whole + whole) % whole);
    const marks = [];
    for (let time = Math.ceil((begin + base) / step) * step - base; time <= end; time += step) marks.push([time, this.markText(time, step)]);
    return marks;
  }

  step(least) {
    const decimal = (size) => {
      const power = 10 ** Math.floor(Math.log10(size));
      return [1, 2, 5, 10].map((digit) => digit * power).find((candidate) => candidate >= size * 0.999);
    };
    if (!this.unit || least <= this.perSecond) return Math.max(1, decimal(Math.max(least, 1e-9)));
    const seconds = least / this.perSecond;
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
      1209600, 2592000, 7776000, 31536000];
    return (steps.find((candidate) => candidate >= seconds) ?? decimal(seconds / 31536000) * 31536000) * this.perSecond;
  }

  markText(time, step) {
    const text = this.text(time);
    if (!this.unit) return text;
    if (step >= 86400 * this.perSecond) return text.slice(0, 10);
    if (step >= 60 * this.perSecond) return text.slice(11, 16);
    return text.slice(11);
  }
}

// A function that draws before the next frame, once however often it is called.
function soon(draw) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  };
}
