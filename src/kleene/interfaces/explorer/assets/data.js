// The data of the page: the manifest, and the columns that it describes as typed arrays over one decompressed buffer.

const ARRAYS = { i32: Int32Array, i64: BigInt64Array, f64: Float64Array, u8: Uint8Array };

async function loadData() {
  const manifest = JSON.parse(document.getElementById("manifest").textContent);
  const packed = Uint8Array.from(atob(document.getElementById("payload").textContent), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(unpacked).arrayBuffer();
  return withArrays(manifest, buffer);
}

// Wherever the manifest says where an array is, the array itself.
function withArrays(node, buffer) {
  if (node === null || typeof node !== "object") return node;
  if ("at" in node && node.type in ARRAYS) return new ARRAYS[node.type](buffer, node.at, node.count);
  if (Array.isArray(node)) return node.map((item) => withArrays(item, buffer));
  return Object.fromEntries(Object.entries(node).map(([name, item]) => [name, withArrays(item, buffer)]));
}

const utf8 = new TextDecoder();

// A value of a column as text; null for NULL.
function valueText(column, row) {
  if (column.kind === "null") return null;
  if (column.kind === "text") {
    const code = column.codes[row];
    return code < 0 ? null : utf8.decode(column.bytes.subarray(column.offsets[code], column.offsets[code + 1]));
  }
  if (column.valid && !column.valid[row]) return null;
  switch (column.kind) {
    case "int": return String(column.values[row]);
    case "float": return floatText(column.values[row]);
    case "bool": return column.values[row] ? "true" : "false";
    case "time": return momentText(column.values[row], column.unit, column.zone);
    case "duration": return durationText(column.values[row], column.unit);
    case "list": return listText(column, row);
    default: return structText(column, row);
  }
}

const MOST_ITEMS = 100;

function listText(column, row) {
  const begin = column.offsets[row], end = column.offsets[row + 1];
  const items = [];
  for (let place = begin; place < Math.min(end, begin + MOST_ITEMS); place++) items.push(valueText(column.child, place) ?? "NULL");
  if (end - begin > MOST_ITEMS) items.push(`… (${(end - begin - MOST_ITEMS).toLocaleString("en")} more)`);
  return `[${items.join(", ")}]`;
}

function structText(column, row) {
  const parts = Object.entries(column.children).map(([name, child]) => `${name}: ${valueText(child, row) ?? "NULL"}`);
  return `{${parts.join(", ")}}`;
}

function floatText(value) {
  return Number.isInteger(value) && Math.abs(value) < 1e16 ? value.toFixed(1) : String(value);
}

// The first place in an ascending array (or in what `at` gives for each place) where the value is at least `wanted`.
function lowerBound(count, at, wanted) {
  let low = 0, high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at(middle) < wanted) low = middle + 1; else high = middle;
  }
  return low;
}
