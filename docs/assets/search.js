/* Makes the search understand questions and word forms, and sorts the results by the rare words in them.

   Material's search looks for each word that begins like one of the query: "a job" finds "address"
   and "JobSet", and "limitations" misses "limits". This script passes on another query: without words
   such as "a", and with all forms of each word that the site contains. Then it sorts the results by BM25F:
   https://en.wikipedia.org/wiki/Okapi_BM25. A query with operators ("+word", "-word", quotes) stays as it is. */
(() => {
  const SETUP = 0, QUERY = 2, RESULT = 3; // SearchMessageType of Material
  const STOP = new Set(("a about after again all also am an and any are as at be because been before but by can "
    + "cannot could did do does doing for from get gets getting got had has have how i if in into is it its just "
    + "let may me might must my need needs no not of off on only or our out should so some than that the their "
    + "them then there these they this to too until use uses using want was way we were what when where which "
    + "while who why will with without won would you your dont doesnt cant hows im ive whats").split(" "));

  /** Return the part that the forms of an English word share: "retr" for "retry" and "retries". */
  function stem(word) {
    if (!/^[a-z]{4,}$/.test(word) || /(ss|us|is)$/.test(word)) return word;
    let short = word.replace(/(ations?|ings?|ions?|ied|ies|ed|es|s|y|e)$/, "");
    if (short.length < 3) short = word.replace(/s$/, "");
    return short !== word && /([bdgmnprt])\1$/.test(short) ? short.slice(0, -1) : short;
  }

  /** Yield the words of a text with their stems, and the parts of a word such as backoffLimit or MASTER_ADDR. */
  function* words(text, separator) {
    for (const word of text.replace(/<[^>]*>/g, " ").split(separator)) {
      yield [stem(word.toLowerCase()), word.toLowerCase(), false];
      const pieces = word.split(/_|(?<=[a-z])(?=[A-Z])/).map(piece => piece.toLowerCase());
      for (const piece of pieces.length > 1 ? pieces : [])
        if (piece.length > 3 && !STOP.has(piece)) yield [stem(piece), word.toLowerCase(), true];
    }
  }

  /** Return each stem of the site with its words, and with words of which it is a part, and the sections of pages. */
  function vocabulary({ config, docs }) {
    const forms = new Map(), parts = new Map(), pages = new Map(), counts = new Map();
    const separator = new RegExp(config.separator);
    const add = (map, key, word) => map.set(key, (map.get(key) || new Set()).add(word));
    const stems = (text, found = new Map()) => {
      for (const [key, word, part] of words(text, separator)) {
        add(part ? parts : forms, key, word);
        found.set(key, (found.get(key) || 0) + 1);
      }
      return found;
    };
    for (const { location, title, text, tags = [] } of docs) {
      const section = { heading: stems(`${title} ${tags.join(" ")}`), text: stems(text), length: text.length };
      const [page] = location.split("#");
      pages.set(page, [...pages.get(page) || [], section]);
      for (const key of new Set([...section.heading.keys(), ...section.text.keys()]))
        counts.set(key, (counts.get(key) || 0) + 1);
    }
    const usual = docs.reduce((total, { text }) => total + text.length, 0) / docs.length;
    return { forms, parts, pages, counts, usual, size: docs.length };
  }

  /** Return the words that count, each with its terms in the language of the search. */
  function parse(text, { forms, parts, counts, size }, separator) {
    if (/["+~^*]|(^|\s)-/.test(text)) return null;
    const typed = text.toLowerCase().split(separator).map(word => word.replace(/[?;'~^*+:]/g, "")).filter(Boolean);
    const kept = typed.filter(word => !STOP.has(word));
    return (kept.length ? kept : typed).map((word, index, { length }) => {
      const plain = words => [...words || []].filter(form => /^[\w.]+$/.test(form));
      const known = plain(forms.get(stem(word)) || similar(word, forms)), part = plain(parts.get(stem(word)));
      const prefix = index === length - 1 || !known.length; // the last may be half a word
      const keys = new Set([stem(word), ...known.map(stem)].filter(key => counts.has(key)));
      const begun = [...counts.keys()].filter(key => prefix && word[2] && key.startsWith(word) && !keys.has(key));
      const stems = [...[...keys].map(key => [key, 1]), ...begun.map(key => [key, 0.4])];
      const times = counts.get(stem(word)) || Math.max(0, ...stems.map(([key]) => counts.get(key)));
      return { word, known, part, prefix, stems, weight: times && Math.log(1 + (size - times + 0.5) / (times + 0.5)) };
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

  /** Return how well a page answers the words: its best section, more if the page contains all words. */
  function score(page, terms, { pages, usual }) {
    const sections = pages.get(page), total = terms.reduce((sum, { weight }) => sum + weight, 0);
    const count = (map, { stems }) => stems.reduce((sum, [key, share]) => sum + share * (map.get(key) || 0), 0);
    let best = 0;
    for (const { heading, text, length } of sections) {
      let sum = 0, covered = 0;
      for (const term of terms) {
        const times = count(text, term), top = heading !== sections[0].heading && count(sections[0].heading, term);
        const part = times * 2.5 / (times + 0.75 + 0.75 * length / usual)
          + 2 * Math.min(1, count(heading, term)) + 3 * Math.min(1, top);
        sum += term.weight * part;
        covered += part && term.weight;
      }
      best = Math.max(best, sum * covered / total);
    }
    const has = term => sections.some(({ heading, text }) => count(heading, term) || count(text, term));
    const share = terms.filter(has).reduce((sum, { weight }) => sum + weight, 0) / total;
    return best * (2 + share) * (/^(contributing|migrate|reference)\//.test(page) ? 0.7 : 1);
  }

  /** Sort the results, and state for each the words that it contains. */
  function sort(items, terms, index) {
    const page = ([{ location }]) => location.split("#")[0];
    const ranks = new Map(items.map(group => [group, score(page(group), terms, index)]));
    items.sort((one, other) => ranks.get(other) - ranks.get(one));
    for (const item of items.flat()) {
      const has = ({ word, known, part }) => [word, ...known, ...part].some(term => item.terms[term]);
      item.terms = Object.fromEntries(terms.map(term => [term.word, has(term)]));
    }
  }

  const post = Worker.prototype.postMessage, engines = new WeakMap();
  let starting;
  const config = () => JSON.parse(document.getElementById("__config").textContent);

  /** Start the worker that answers the queries to another one. Return a promise that it is ready. */
  const start = (worker, data) => new Promise(ready => {
    const engine = { worker: new Worker(config().search), queries: [],
      words: vocabulary(data), separator: new RegExp(data.config.separator) };
    engine.worker.onmessage = ({ data }) => {
      const words = data.type === RESULT && engine.queries.shift();
      if (words) sort(data.data.items, words, engine.words);
      worker.dispatchEvent(new MessageEvent("message", { data }));
      ready();
    };
    engines.set(worker, engine);
    post.call(engine.worker, { type: SETUP, data });
  });

  /** Start it for a search that was set up before this script was loaded. */
  const late = async worker => {
    const file = await fetch(new URL(`${config().base}/search/search_index.json`, location.href));
    await start(worker, { ...await file.json(), options: {} });
  };

  Worker.prototype.postMessage = function (message, ...rest) {
    if (message?.type === SETUP && message.data?.docs && !engines.has(this)) return void start(this, message.data);
    const engine = engines.get(this);
    if (!engine && message?.type === QUERY) {
      starting ||= late(this);
      return void starting.then(() => this.postMessage(message, ...rest));
    }
    if (!engine) return post.call(this, message, ...rest);
    if (message?.type === QUERY) {
      const words = parse(message.data, engine.words, engine.separator);
      engine.queries.push(words);
      if (words) message = { ...message, data: words.map(language).join(" ") };
    }
    post.call(engine.worker, message);
  };
})();
