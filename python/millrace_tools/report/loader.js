// The charts over time of a loader's report, drawn from the profile in the page: hovering says what a step took, dragging zooms all of
// them to the same stretch of time.
//
// Where a pixel has several steps a chart shows their shares, or their mean in a band from the lowest to the highest.
"use strict";
(() => {
  const box = document.querySelector(".zoomable");
  const source = document.getElementById("profile");
  const profile = source ? JSON.parse(source.textContent) : {};
  const { enter = [], leave = [], ready = [], kept_from: keptFrom = 0 } = profile.steps || {};
  const count = Math.min(enter.length, leave.length);
  if (!box || count === 0) return;

  const WIDTH = 960, LEFT = 64, RIGHT = 942;
  const ends = leave.slice(0, count).map((moment, i) => Math.max(moment, i + 1 < enter.length ? enter[i + 1] : profile.wall_seconds || 0));
  const waits = ends.map((_, i) => Math.max(0, leave[i] - enter[i]));
  const own = ends.map((end, i) => end - leave[i]);
  const perBatch = profile.batches ? profile.samples / profile.batches : 0;
  const batches = Math.min(count, Math.max(1, profile.batches - keptFrom));  // the last next() may have found the end
  const start = keptFrom === 0 ? Math.min((profile.consumer || {}).start || 0, enter[0]) : 0;
  const first = keptFrom === 0 ? 0 : enter[0], last = Math.max(profile.wall_seconds || 0, ends[count - 1], first + 1e-9);
  const shortest = Math.max((last - first) * 1e-6, 1e-5);
  let from = first, to = last;

  // ---------------------------------------------------------------- numbers as people read them
  const unitOf = (s) => (s >= 7200 ? [3600, "h"] : s >= 120 ? [60, "min"] : s >= 1 ? [1, "s"] : s >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"]);
  const seconds = (s) => {
    const [factor, unit] = unitOf(s), scaled = s / factor;
    return `${scaled.toFixed(scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2)} ${unit}`;
  };
  const ticks = (low, high, most) => {  // [[value, text], ...], round numbers
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((each) => each >= rough * (1 - 1e-9));
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), found = [];
    for (let i = Math.ceil(low / step - 1e-9) + 0; i * step <= high + step * 1e-9; i += 1) {
      found.push([i * step, (i * step).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })]);
    }
    return found;
  };

  // ---------------------------------------------------------------- charts
  const most = (values, least = 0) => values.reduce((a, b) => Math.max(a, b), least);
  const rates = (begin, end) => {  // samples per second over equal stretches of from..to
    const bins = Math.max(1, Math.min(120, Math.floor((end - begin) / 5))), width = (to - from) / bins;
    const counts = new Array(bins).fill(0);
    for (let i = begin; i < end; i += 1) counts[Math.min(bins - 1, Math.floor((leave[i] - from) / width))] += 1;
    return counts.map((n) => (n * perBatch) / width);
  };

  // {kind of chart: what it shows}; kinds: {series: its colour}; scale: of the y axis, [highest value, its label, what a mark stands for]
  function contents() {
    const longest = Math.max(most(waits), most(own)), [factor, unit] = unitOf(longest), deepest = most(ready, -1);
    const found = {
      loop: { title: "Waits and steps", kinds: start > 0 ? { start: "start", wait: "wait", step: "step" } : { wait: "wait", step: "step" }, size: 70 },
      seconds: {
        title: "How long each took", kinds: { wait: "wait", step: "step" }, size: 108, scale: [longest || 1, `time (${longest ? unit : "s"})`, longest ? factor : 1],
      },
    };
    if (deepest >= 0) {
      const slots = (profile.queue || {}).slots || 1;
      found.ready = { title: "Batches ready when next() was called", kinds: { ready: "5" }, size: 98, scale: [Math.max(slots, deepest), "batches", 1] };
    }
    if (perBatch) {
      found.rate = { title: "Throughput", kinds: { "samples per second": "1" }, size: 98, scale: [most(rates(0, batches)) || 1, "samples per second", 1] };
    }
    return found;
  }

  function frame(kind, { title, kinds, size, scale }) {
    const names = Object.keys(kinds), legend = names.length > 1;
    const top = 34 + (legend ? 20 : 0) + (scale ? 14 : 0), bottom = top + size;
    const chart = { kind, kinds, left: LEFT, right: RIGHT, top, bottom, low: 0, high: scale ? scale[0] : 1 };
    let marks = `<text class="title" x="2" y="16">${title}</text>`, x = LEFT;
    for (const name of legend ? names : []) {
      marks += `<rect class="f-${kinds[name]}" x="${x}" y="29" width="11" height="11" rx="2"/><text class="small" x="${x + 16}" y="38">${name}</text>`;
      x += 34 + 7 * name.length;
    }
    if (scale) {
      const [highest, label, factor] = scale;
      marks += `<text class="faint small" x="2" y="${top - 6}">${label}</text>`;
      for (const [value, words] of ticks(0, highest / factor, Math.max(2, Math.floor(size / 26)))) {
        const y = height(chart, value * factor).toFixed(1);
        marks += `<line class="grid" x1="${LEFT}" x2="${RIGHT}" y1="${y}" y2="${y}"/>`
          + `<text class="faint small end" x="${LEFT - 7}" y="${Number(y) + 4}">${words}</text>`;
      }
    }
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const attributes = {
      class: "mr", viewBox: `0 0 ${WIDTH} ${bottom + 42}`, role: "img", "aria-label": title, "data-zoom": kind, "data-low": first, "data-high": last,
    };
    Object.entries(attributes).forEach(([name, value]) => svg.setAttribute(name, value));
    svg.innerHTML = `${marks}<g class="x-axis"></g><line class="axis" x1="${LEFT}" x2="${RIGHT}" y1="${bottom}" y2="${bottom}"/>`
      + `<text class="faint small end x-title" x="${RIGHT}" y="${bottom + 33}"></text><g class="plot"></g>`;
    box.append(svg);
    return Object.assign(chart, { svg, plot: svg.querySelector(".plot"), axis: svg.querySelector(".x-axis"), title: svg.querySelector(".x-title") });
  }

  // ---------------------------------------------------------------- shapes
  const place = (chart, moment) => chart.left + ((moment - from) / (to - from)) * (chart.right - chart.left);
  const height = (chart, value) => chart.bottom - ((value - chart.low) / (chart.high - chart.low)) * (chart.bottom - chart.top);
  const before = (moments, moment) => {  // how many of the rising numbers are not above `moment`
    let low = 0, high = count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (moments[middle] <= moment) low = middle + 1; else high = middle;
    }
    return low;
  };
  const visible = () => [Math.max(0, before(enter, from) - 1), before(enter, to)];

  function covered(begins, spanEnds, columns, begin, end) {
    const shares = new Float64Array(columns), width = (to - from) / columns;
    for (let i = begin; i < end; i += 1) {
      const a = Math.max(begins[i], from), b = Math.min(spanEnds[i], to);
      if (!(b > a)) continue;
      const one = Math.min(columns - 1, Math.floor((a - from) / width)), other = Math.min(columns - 1, Math.floor((b - from) / width));
      for (let c = one; c <= other; c += 1) {
        shares[c] += Math.min(b, from + (c + 1) * width) - Math.max(a, from + c * width);
      }
    }
    return shares.map((share) => Math.min(1, Math.max(0, share / width)));
  }

  function drawLoop(chart) {
    const columns = Math.floor(chart.right - chart.left), floor = chart.bottom - 6, lane = floor - chart.top;
    const [begin, end] = visible();
    const spans = { start: [[0], [start], 0, 1], wait: [enter, leave, begin, end], step: [leave, ends, begin, end] };
    let below = new Float64Array(columns);
    return Object.keys(chart.kinds).map((name) => {
      const shares = covered(spans[name][0], spans[name][1], columns, spans[name][2], spans[name][3]);
      const above = below.map((share, i) => Math.min(1, share + shares[i]));
      let there = "";
      for (let c = 0; c < columns; c += 1) {
        if (above[c] <= below[c]) continue;
        there += `M${chart.left + c} ${floor - lane * below[c]}V${(floor - lane * above[c]).toFixed(1)}h1V${(floor - lane * below[c]).toFixed(1)}Z`;
      }
      below = above;
      return `<path class="sharp f-${chart.kinds[name]}" data-name="${name}" d="${there}"/>`;
    }).join("");
  }

  function drawLine(chart, name, xs, ys, steps) {
    const [begin, end] = visible(), kind = chart.kinds[name];
    if (end - begin > 2 * WIDTH) {
      const low = [], high = [], mean = [];
      for (let i = begin; i < end;) {
        const column = Math.floor(place(chart, xs[i]));
        let least = Infinity, most = -Infinity, sum = 0, n = 0;
        for (; i < end && Math.floor(place(chart, xs[i])) === column; i += 1) {
          least = Math.min(least, ys[i]); most = Math.max(most, ys[i]); sum += ys[i]; n += 1;
        }
        if (column < chart.left || column > chart.right) continue;
        const x = column + 0.5;
        low.push(`${x} ${height(chart, least).toFixed(1)}`); high.unshift(`${x} ${height(chart, most).toFixed(1)}`);
        mean.push(`${x} ${height(chart, sum / n).toFixed(1)}`);
      }
      return `<path class="band f-${kind}" d="M${low.concat(high).join("L")}Z"/><path class="line l-${kind}" d="M${mean.join("L")}"/>`;
    }
    let path = "", dots = "";
    for (let i = begin; i < end; i += 1) {
      const inside = xs[i] >= from && xs[i] <= to;
      if (!inside && !steps) continue;
      const x = Math.min(chart.right, Math.max(chart.left, place(chart, xs[i]))).toFixed(1), y = height(chart, ys[i]).toFixed(1);
      path += path === "" ? `M${x} ${y}` : steps ? `H${x}V${y}` : `L${x} ${y}`;
      if (inside && end - begin < 120) dots += `<circle class="f-${kind}" cx="${x}" cy="${y}" r="2.5"/>`;
    }
    if (steps && path) path += `H${chart.right}`;
    return `<path class="line l-${kind}" d="${path}"/>${dots}`;
  }

  function drawRate(chart) {
    const kind = Object.values(chart.kinds)[0], shown = rates(before(leave, from), Math.min(batches, before(leave, to)));
    let path = "";
    shown.forEach((rate, i) => {
      const y = Math.max(chart.top, height(chart, rate)).toFixed(1);
      path += `${i === 0 ? `M${chart.left} ${y}` : `V${y}`}H${(chart.left + ((i + 1) / shown.length) * (chart.right - chart.left)).toFixed(1)}`;
    });
    return `<path class="band f-${kind}" d="${path}V${chart.bottom}H${chart.left}Z"/><path class="line l-${kind}" d="${path}"/>`;
  }

  const draw = {
    loop: drawLoop,
    seconds: (chart) => drawLine(chart, "wait", leave, waits, false) + drawLine(chart, "step", leave, own, false),
    ready: (chart) => drawLine(chart, "ready", enter, enter.map((_, i) => Math.max(0, ready[i] || 0)), true),
    rate: drawRate,
  };

  function drawAxis(chart) {
    const [factor, unit] = to - from >= 1 ? unitOf(to - from) : [1, "s"];
    let marks = "";
    for (const [value, words] of ticks(from / factor, to / factor, 8)) {
      const x = place(chart, value * factor).toFixed(1);
      marks += `<line class="axis" x1="${x}" x2="${x}" y1="${chart.bottom}" y2="${chart.bottom + 4}"/>`
        + `<text class="faint small mid" x="${x}" y="${chart.bottom + 17}">${words}</text>`;
    }
    chart.axis.innerHTML = marks;
    chart.title.textContent = `time (${unit})`;
  }

  const charts = Object.entries(contents()).map(([kind, content]) => frame(kind, content));
  const shown = document.querySelector("[data-shown]");
  function show(newFrom, newTo) {
    const span = Math.min(last - first, Math.max(shortest, newTo - newFrom));
    from = Math.min(Math.max(first, newFrom), last - span);
    to = from + span;
    for (const chart of charts) {
      chart.plot.innerHTML = draw[chart.kind](chart);
      drawAxis(chart);
    }
    const whole = span >= (last - first) * (1 - 1e-9);
    shown.textContent = whole ? "the whole run" : `${from.toFixed(3)} s to ${to.toFixed(3)} s, ${seconds(span)}`;
    box.dataset.from = from;
    box.dataset.to = to;
  }
  const zoom = (factor, middle = (from + to) / 2) => show(middle - (middle - from) * factor, middle + (to - middle) * factor);

  // ---------------------------------------------------------------- pointer and keys
  const tip = document.querySelector(".tip");
  const overlays = charts.map((chart) => {
    const group = document.createElementNS("http://www.w3.org/2000/svg", "g");
    group.innerHTML = `<line class="cursor" y1="${chart.top}" y2="${chart.bottom}" visibility="hidden"/>`
      + `<rect class="selection" y="${chart.top}" height="${chart.bottom - chart.top}" visibility="hidden"/>`;
    chart.svg.append(group);
    return { chart, cursor: group.children[0], selection: group.children[1] };
  });
  const momentOf = (event) => {
    const chart = charts[0], area = chart.svg.getBoundingClientRect();
    const x = ((event.clientX - area.left) / area.width) * WIDTH;
    return from + (Math.min(chart.right, Math.max(chart.left, x)) - chart.left) / (chart.right - chart.left) * (to - from);
  };
  let pressed = null;

  function hover(moment, event) {
    const i = Math.max(0, before(enter, moment) - 1);
    const depth = ready[i] === undefined || ready[i] < 0 ? "" : `\n${ready[i]} ready when it asked`;
    tip.textContent = moment < enter[0] ? `starting, ${seconds(enter[0])}`
      : `step ${(keptFrom + i).toLocaleString("en")}, at ${enter[i].toFixed(3)} s\nwait ${seconds(waits[i])}\nstep ${seconds(own[i])}${depth}`;
    tip.hidden = false;
    tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${event.clientY + 16}px`;
    for (const { chart, cursor, selection } of overlays) {
      const x = place(chart, moment);
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      cursor.setAttribute("visibility", "visible");
      if (pressed !== null) {
        const other = place(chart, pressed);
        selection.setAttribute("x", Math.min(x, other));
        selection.setAttribute("width", Math.abs(x - other));
        selection.setAttribute("visibility", "visible");
      }
    }
  }
  function rest() {
    tip.hidden = true;
    for (const { cursor, selection } of overlays) {
      cursor.setAttribute("visibility", "hidden");
      selection.setAttribute("visibility", "hidden");
    }
  }
  box.addEventListener("pointermove", (event) => hover(momentOf(event), event));
  box.addEventListener("pointerleave", () => { if (pressed === null) rest(); });
  box.addEventListener("pointerdown", (event) => { if (event.button === 0) pressed = momentOf(event); });
  window.addEventListener("pointerup", (event) => {
    if (pressed === null) return;
    const [a, b] = [pressed, momentOf(event)].sort((one, other) => one - other);
    pressed = null;
    rest();
    if (b - a > (to - from) * 0.005) show(a, b);
  });
  box.addEventListener("dblclick", () => show(first, last));
  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, momentOf(event));
  }, { passive: false });
  const keys = {
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => show(first, last), Escape: () => show(first, last),
    ArrowLeft: () => show(from - (to - from) / 4, to - (to - from) / 4), ArrowRight: () => show(from + (to - from) / 4, to + (to - from) / 4),
  };
  box.addEventListener("keydown", (event) => {
    if (keys[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); keys[event.key](); }
  });
  for (const button of document.querySelectorAll("button[data-zoom-by]")) {
    button.addEventListener("click", () => keys[button.dataset.zoomBy]());
    button.disabled = false;
  }
  show(first, last);
})();
