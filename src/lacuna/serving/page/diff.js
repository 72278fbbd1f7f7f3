// The difference of two texts in words: what is only in the old one, and what is only in the new one.
const WORD = /\s+|[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[[\p{L}\p{M}\p{N}_]--[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]]+|./gsv;
const MOST_CELLS = 4e6; // of the table; longer texts are not compared word by word

// A list of parts, each with a kind (same, del or ins) and its text.
export function difference(before, after) {
  const old = before.match(WORD) || [], now = after.match(WORD) || [];
  if (old.length * now.length > MOST_CELLS) return [{ kind: "del", text: before }, { kind: "ins", text: after }];
  const common = commonLengths(old, now), parts = [];
  let place = 0, other = 0;
  while (place < old.length || other < now.length) {
    if (place < old.length && other < now.length && old[place] === now[other]) { add(parts, "same", old[place++]); other++; }
    else if (other >= now.length || (place < old.length && common[place + 1][other] >= common[place][other + 1])) add(parts, "del", old[place++]);
    else add(parts, "ins", now[other++]);
  }
  return parts;
}

function add(parts, kind, text) {
  if (parts.at(-1)?.kind === kind) parts.at(-1).text += text;
  else parts.push({ kind, text });
}

// Lengths of the longest common subsequences of all suffixes.
function commonLengths(old, now) {
  const rows = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let place = old.length - 1; place >= 0; place--) {
    for (let other = now.length - 1; other >= 0; other--) {
      rows[place][other] = old[place] === now[other] ? rows[place + 1][other + 1] + 1 : Math.max(rows[place + 1][other], rows[place][other + 1]);
    }
  }
  return rows;
}
