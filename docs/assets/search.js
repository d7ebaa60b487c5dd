/* Makes the search understand questions and word forms, and prefers results that contain every word.

   Material's search looks for each word that begins like one of the query: "a job" finds "address"
   and "JobSet", and "limitations" misses "limits". This script passes on another query: without words
   such as "a", and with all forms of each word that the site contains. Then it sorts the results again.
   A query with operators of the search ("+word", "-word", quotes) stays as it is. */
(() => {
  const SETUP = 0, QUERY = 2, RESULT = 3; // SearchMessageType of Material
  const STOP = new Set(("a about after again all also am an and any are as at be because been before but by can "
    + "cannot could did do does doing for from get gets getting got had has have how i if in into is it its just "
    + "let may me might must my need needs no not of off on only or our out should so some than that the their "
    + "them then there these they this to too until use uses using want was way we were what when where which "
    + "while who why will with without won would you your").split(" "));

  /** Return the part that the forms of an English word share: "retr" for "retry" and "retries". */
  function stem(word) {
    if (!/^[a-z]{4,}$/.test(word) || /(ss|us|is)$/.test(word)) return word;
    let short = word.replace(/(ations?|ings?|ions?|ied|ies|ed|es|s|y|e)$/, "");
    if (short.length < 3) short = word.replace(/s$/, "");
    return short !== word && /([bdgmnprt])\1$/.test(short) ? short.slice(0, -1) : short;
  }

  /** Return each stem of the site with its words, and with words of which it is a part, as in backoffLimit. */
  function vocabulary({ config, docs }) {
    const forms = new Map(), parts = new Map(), words = new Set();
    const add = (map, key, word) => map.set(key, (map.get(key) || new Set()).add(word));
    for (const { title, text } of docs)
      for (const word of `${title} ${text.replace(/<[^>]*>/g, " ")}`.split(new RegExp(config.separator)))
        words.add(word);
    for (const word of words) {
      add(forms, stem(word.toLowerCase()), word.toLowerCase());
      const pieces = word.split(/(?<=[a-z])(?=[A-Z])/).map(piece => piece.toLowerCase());
      for (const piece of pieces.length > 1 ? pieces : [])
        if (piece.length > 3 && !STOP.has(piece)) add(parts, stem(piece), word.toLowerCase());
    }
    return { forms, parts };
  }

  /** Return the words that count, each with its terms in the language of the search. */
  function parse(text, { forms, parts }, separator) {
    if (/["+~^*]|(^|\s)-/.test(text)) return null;
    const typed = text.toLowerCase().split(separator).map(word => word.replace(/[?;'~^*+:]/g, "")).filter(Boolean);
    const kept = typed.filter(word => !STOP.has(word));
    return (kept.length ? kept : typed).map((word, index, { length }) => {
      const plain = words => [...words || []].filter(form => /^[\w.]+$/.test(form));
      const known = plain(forms.get(stem(word)) || similar(word, forms)), part = plain(parts.get(stem(word)));
      return { word, known, part, prefix: index === length - 1 || !known.length }; // the last may be half a word
    });
  }

  /** Return the words for one that the site does not contain: "cron" for "crontab", "train" for "retrain". */
  function similar(word, forms) {
    for (let end = word.length - 1; end > 3; end--) {
      const start = stem(word.slice(0, end));
      if (start.length > 3 && forms.has(start)) return forms.get(start);
    }
    return /^(re|un|de|non)/.test(word) && forms.get(stem(word.replace(/^(re|un|de|non)/, ""))) || [];
  }

  const language = ({ word, known, part, prefix }) => [
    ...known.map(form => `${form}^${form === word ? 10 : 8}`),
    ...part.map(form => `${form}^4`),
    ...prefix ? [`${word}*^${word.length > 5 ? 4 : 1}`] : []
  ].join(" ");

  /** Sort the results by the share of the words that they contain, a page's own text a little first. */
  function sort(items, words) {
    const has = (item, { word, known, part }) => [word, ...known, ...part].some(term => item.terms[term]);
    const rank = group => {
      let best = 0;
      for (const item of group) {
        const found = Object.values(item.terms);
        const bonus = +!item.parent + found.filter(Boolean).length / (found.length || 1);
        const share = words.filter(word => has(item, word)).length / words.length;
        best = Math.max(best, item.score / (1 + bonus ** 2) * share ** 2 * (item.parent ? 1 : 1.5));
      }
      return best * (1 + words.filter(word => group.some(item => has(item, word))).length / words.length);
    };
    const ranks = new Map(items.map(group => [group, rank(group)]));
    items.sort((one, other) => ranks.get(other) - ranks.get(one));
    for (const item of items.flat())
      item.terms = Object.fromEntries(words.map(word => [word.word, has(item, word)]));
  }

  const post = Worker.prototype.postMessage, engines = new WeakMap();
  Worker.prototype.postMessage = function (message, ...rest) {
    if (message?.type === SETUP && message.data?.docs && !engines.has(this)) {
      const { search } = JSON.parse(document.getElementById("__config").textContent);
      const engine = { worker: new Worker(search), queries: [],
        words: vocabulary(message.data), separator: new RegExp(message.data.config.separator) };
      engine.worker.onmessage = ({ data }) => {
        const words = data.type === RESULT && engine.queries.shift();
        if (words) sort(data.data.items, words);
        this.dispatchEvent(new MessageEvent("message", { data }));
      };
      engines.set(this, engine);
      return post.call(engine.worker, message);
    }
    const engine = engines.get(this);
    if (!engine) return post.call(this, message, ...rest);
    if (message?.type === QUERY) {
      const words = parse(message.data, engine.words, engine.separator);
      engine.queries.push(words);
      if (words) message = { ...message, data: words.map(language).join(" ") };
    }
    post.call(engine.worker, message);
  };
})();
