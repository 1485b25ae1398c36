// The minimal JSON that the SDK itself needs. It is not a JSON library.

/** Encodes a text as a JSON string. */
export function quote(s: string): string {
  const parts: string[] = ["\""];
  let from = 0;
  for (let i = 0; i < s.length; i++) {
    const c = s.charCodeAt(i);
    if (c >= 0x20 && c != 0x22 && c != 0x5c) continue;
    parts.push(s.substring(from, i));
    parts.push(escape(c));
    from = i + 1;
  }
  parts.push(s.substring(from));
  parts.push("\"");
  return parts.join("");
}

function escape(c: i32): string {
  if (c == 0x22) return "\\\"";
  if (c == 0x5c) return "\\\\";
  if (c == 0x0a) return "\\n";
  if (c == 0x0d) return "\\r";
  if (c == 0x09) return "\\t";
  return "\\u" + c.toString(16).padStart(4, "0");
}

/** Returns the index after the value that begins at i, and the white space around it. */
function skip(s: string, i: i32): i32 {
  let depth = 0, begun = false;
  for (; i < s.length; i++) {
    const c = s.charCodeAt(i);
    if (c == 0x22) {
      for (i++; i < s.length && s.charCodeAt(i) != 0x22; i++) if (s.charCodeAt(i) == 0x5c) i++;
      begun = true;
    } else if (c == 0x7b || c == 0x5b) {
      depth++;
    } else if (c == 0x7d || c == 0x5d) {
      if (depth == 0) return i;
      depth--;
      begun = true;
    } else if (depth == 0 && (c == 0x2c || c == 0x3a) && begun) {
      return i;
    } else if (c > 0x20) {
      begun = true;
    }
  }
  return s.length;
}

/** Returns the text of a field of an object, empty if there is none. */
export function field(object: string, key: string): string {
  let i = object.indexOf("{") + 1;
  if (i == 0) return "";
  const wanted = quote(key);
  while (i < object.length) {
    const colon = skip(object, i);
    if (colon >= object.length || object.charCodeAt(colon) != 0x3a) return "";
    const end = skip(object, colon + 1);
    if (object.substring(i, colon).trim() == wanted) return object.substring(colon + 1, end).trim();
    i = end + 1;
  }
  return "";
}

/** Returns the texts of the elements of an array, none if it is not an array. */
export function elements(array: string): string[] {
  const list: string[] = [];
  array = array.trim();
  if (!array.startsWith("[") || !array.endsWith("]")) return list;
  const inner = array.substring(1, array.length - 1);
  if (inner.trim() == "") return list;
  for (let i = 0; i < inner.length;) {
    const end = skip(inner, i);
    list.push(inner.substring(i, end).trim());
    i = end + 1;
  }
  return list;
}

/** Decodes a JSON string, and returns other JSON verbatim. */
export function text(value: string): string {
  value = value.trim();
  if (value.length < 2 || value.charCodeAt(0) != 0x22) return value;
  const parts: string[] = [];
  let from = 1;
  for (let i = 1; i < value.length - 1; i++) {
    if (value.charCodeAt(i) != 0x5c) continue;
    parts.push(value.slice(from, i));
    const c = value.charCodeAt(++i);
    if (c == 0x6e) parts.push("\n");
    else if (c == 0x72) parts.push("\r");
    else if (c == 0x74) parts.push("\t");
    else if (c == 0x62) parts.push("\b");
    else if (c == 0x66) parts.push("\f");
    else if (c == 0x75) {
      parts.push(String.fromCharCode(<i32>parseInt(value.substring(i + 1, i + 5), 16))); // surrogate pairs are two escapes
      i += 4;
    } else parts.push(String.fromCharCode(c));
    from = i + 1;
  }
  parts.push(value.slice(from, value.length - 1));
  return parts.join("");
}

/** Decodes a JSON integer, 0 if it is not one. */
export function number(value: string): i64 {
  value = value.trim();
  if (value.length == 0) return 0;
  const c = value.charCodeAt(0);
  return c == 0x2d || (c >= 0x30 && c <= 0x39) ? I64.parseInt(value, 10) : 0;
}
