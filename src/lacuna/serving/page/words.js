// Grouping of tokens into words, which are shown and selected as a whole.
const ONLY_SIGNS = /^[^\p{L}\p{N}'’_-]+$/u;
const WITHOUT_SPACES = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;

export function level(margin) {
  if (margin === null) return "none";
  return margin < 1 ? 0 : margin < 4 ? 1 : margin < 16 ? 2 : 3;
}

function startsWord(text, before) {
  return before === null || /^\s/.test(text) || ONLY_SIGNS.test(text.trim()) || ONLY_SIGNS.test(before.trim()) || WITHOUT_SPACES.test(text);
}

// Each word: the space before it, its text and where that is, its tokens, their smallest margin, and whether the memory
// changed it. Places count characters as the server does.
export function wordsOf(tokens) {
  const words = [];
  let before = null, length = 0;
  tokens.forEach((token, place) => {
    const last = place === tokens.length - 1 && !token.text;
    if (last || startsWord(token.text, before)) words.push({ space: /^\s/.test(token.text), text: "", start: length, tokens: [], end: last });
    const word = words.at(-1);
    word.text += token.text;
    word.tokens.push(token);
    before = token.text || before;
    length += [...token.text].length;
  });
  for (const word of words) {
    word.start += word.text.length - word.text.trimStart().length;
    word.text = word.end ? "¶" : word.text.trim();
    const margins = word.tokens.map((token) => token.margin).filter((margin) => margin !== null);
    word.margin = margins.length ? Math.min(...margins) : null;
    word.changed = word.tokens.some((token) => token.chosen_by === "memory");
  }
  return words.filter((word) => word.text);
}
