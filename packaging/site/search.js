/**
 * Finds pages and declarations in the index of the site: those that have all words of the text, or else those that have
 * any. TypeDoc's own search looks for any, so that most of what it finds for "out of memory" has only an "of", and fails
 * if the text has a colon, as error messages do.
 */
globalThis.searchSite = (index, text) => {
  const words = text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
  const long = words.filter((word) => word.length > 2);
  const find = (presence) =>
    index.query((query) => {
      for (const term of long.length > 0 ? long : words) {
        query.term(term, { presence, wildcard: 3 }); // anywhere in a word
        query.term(term, { boost: 10 }); // better as a word
      }
    });
  const all = find(2);
  return all.length > 0 ? all : find(1);
};
