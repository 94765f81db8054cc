// Draws the charts of the report from the JSON in #data. Text goes in as text nodes only, never as HTML.
const data = JSON.parse(document.getElementById('data').textContent);
const tip = document.getElementById('tip');
const figure = new Intl.NumberFormat('en-US', {maximumSignificantDigits: 4});
const whole = new Intl.NumberFormat('en-US', {maximumFractionDigits: 0});
const number = v => Math.abs(v) >= 1000 ? whole.format(v) : figure.format(v);
const share = v => (v * 100).toFixed(1) + '%';
const isNumber = v => typeof v === 'number' && isFinite(v);

function add(parent, name, attributes, text) {
  const inSvg = name === 'svg' || parent instanceof SVGElement;
  const element = inSvg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function empty(id, sentence) { add(document.getElementById(id), 'p', {class: 'empty'}, sentence); }

// The readout: a heading and lines of [colour, text].
function show(event, head, lines) {
  tip.replaceChildren();
  add(tip, 'div', {class: 'head'}, head);
  for (const [colour, text] of lines) {
    const line = add(tip, 'div', {});
    if (colour) add(line, 'i', {style: `background:${colour}`});
    line.append(text);
  }
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = event.clientX + 16 + box.width > innerWidth ? event.clientX - box.width - 12 : event.clientX + 16;
  tip.style.left = Math.max(4, left) + 'px';
  tip.style.top = Math.min(event.clientY + 14, innerHeight - box.height - 4) + 'px';
}
function hide() { tip.hidden = true; }

// Draws now and whenever the width of the place changes.
function drawn(place, draw) {
  let width = 0;
  const again = () => {
    if (place.clientWidth === width || !place.clientWidth) return;
    width = place.clientWidth;
    draw(width);
  };
  again();
  new ResizeObserver(again).observe(place);
}

// About `count` round values within [low, high].
function ticks(low, high, count, integers) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  let distance = power * [1, 2, 5, 10].find(f => f * power >= rough * 0.999);
  if (integers) distance = Math.max(1, Math.round(distance));
  const values = [];
  for (let i = Math.ceil(low / distance - 1e-9); i * distance <= high + distance * 1e-9; ++i)
    values.push(i * distance || 0);  // never -0
  return values;
}

function legend(place, entries, line) {
  const list = add(place, 'div', {class: 'legend'});
  for (const [name, colour] of entries) {
    const entry = add(list, 'span', {});
    add(entry, 'i', {class: line ? 'line' : '', style: `background:${colour}`});
    entry.append(name);
  }
  return list;
}

// The range of the values, widened to round ones; a single value gets room on both sides.
function range(values, fromZero) {
  let low = Infinity, high = -Infinity;
  for (const v of values) {
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  if (fromZero) low = Math.min(low, 0);
  if (low === high) {
    const room = Math.abs(low) * 0.1 || 1;
    low -= fromZero ? 0 : room;
    high += room;
  }
  const distance = (high - low) / 20;
  return [fromZero && low === 0 ? 0 : low - distance, high + distance];
}

// options: x, y (axis titles), formatX, formatY, integerX, fromZero, top (the highest y that makes sense);
// series: [{name, colour, points: [[x, y or null]], dots}]
function lineChart(id, series, options) {
  const place = document.getElementById(id);
  series = series.filter(s => s.points.some(p => isNumber(p[1])));
  if (!series.length) return empty(id, 'Nothing was recorded.');
  legend(place, series.map(s => [s.name, s.colour]), true);
  const all = series.flatMap(s => s.points.filter(p => isNumber(p[1])));
  const [bottom, highest] = range(all.map(p => p[1]), options.fromZero);
  const top = Math.min(highest, options.top ?? Infinity);
  const xs = all.map(p => p[0]);
  let left = xs.reduce((a, b) => Math.min(a, b)), right = xs.reduce((a, b) => Math.max(a, b));
  const single = left === right;
  if (single) {
    left -= 1;
    right += 1;
  }
  const svg = add(place, 'svg', {role: 'img', 'aria-label': `${options.y} by ${options.x}`});

  drawn(place, width => {
    const height = 250, box = {left: 50, right: width - 12, top: 10, bottom: height - 42};
    const X = x => box.left + (x - left) / (right - left) * (box.right - box.left);
    const Y = y => box.bottom - (y - bottom) / (top - bottom) * (box.bottom - box.top);
    svg.replaceChildren();
    svg.setAttribute('height', height);
    for (const y of ticks(bottom, top, 5)) {
      add(svg, 'line', {class: 'grid', x1: box.left, x2: box.right, y1: Y(y), y2: Y(y)});
      add(svg, 'text', {x: box.left - 8, y: Y(y) + 4, 'text-anchor': 'end'}, options.formatY(y));
    }
    add(svg, 'line', {class: 'base', x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom});
    for (const x of ticks(left, right, Math.max(2, width / 90), options.integerX)) {
      if (!single || x === xs[0])
        add(svg, 'text', {x: X(x), y: box.bottom + 17, 'text-anchor': 'middle'}, options.formatX(x));
    }
    add(svg, 'text', {class: 'title', x: (box.left + box.right) / 2, y: height - 5, 'text-anchor': 'middle'},
        options.x);
    for (const s of series) curve(svg, s, X, Y);
    hover(svg, series, X, Y, box, options);
  });
}

// A value that is not a number leaves a gap; a point without neighbours is a dot.
function curve(svg, s, X, Y) {
  let path = '';
  const dots = [];
  s.points.forEach(([x, y], i) => {
    if (!isNumber(y)) return;
    const before = i > 0 && isNumber(s.points[i - 1][1]),
          after = i + 1 < s.points.length && isNumber(s.points[i + 1][1]);
    path += `${before ? 'L' : 'M'}${X(x).toFixed(1)} ${Y(y).toFixed(1)}`;
    if ((s.dots && s.points.length <= 60) || (!before && !after)) dots.push([x, y]);
  });
  add(svg, 'path', {class: 'curve', d: path, style: `stroke:${s.colour}`});
  for (const [x, y] of dots) add(svg, 'circle', {class: 'dot', cx: X(x), cy: Y(y), r: 4.5, style: `fill:${s.colour}`});
}

function hover(svg, series, X, Y, box, options) {
  const cross = add(svg, 'line', {class: 'cross', y1: box.top, y2: box.bottom, visibility: 'hidden'});
  const marks =
      series.map(s => add(svg, 'circle', {class: 'dot', r: 5, style: `fill:${s.colour}`, visibility: 'hidden'}));
  const area = add(svg, 'rect', {
    x: box.left,
    y: box.top,
    width: Math.max(0, box.right - box.left),
    height: box.bottom - box.top,
    fill: 'transparent'
  });
  const nearest = (s, at) =>
      s.points.filter(p => isNumber(p[1])).reduce((a, b) => Math.abs(X(b[0]) - at) < Math.abs(X(a[0]) - at) ? b : a);
  area.addEventListener('pointermove', event => {
    const at = event.clientX - svg.getBoundingClientRect().left;
    const found = series.map(s => nearest(s, at));
    const x = found.reduce((a, b) => Math.abs(X(b[0]) - at) < Math.abs(X(a[0]) - at) ? b : a)[0];
    cross.setAttribute('x1', X(x));
    cross.setAttribute('x2', X(x));
    cross.setAttribute('visibility', 'visible');
    const lines = [];
    series.forEach((s, i) => {
      const [px, py] = found[i], near = Math.abs(X(px) - X(x)) < 3;
      marks[i].setAttribute('visibility', near ? 'visible' : 'hidden');
      if (!near) return;
      marks[i].setAttribute('cx', X(px));
      marks[i].setAttribute('cy', Y(py));
      lines.push([s.colour, `${s.name} ${options.formatY(py)}`]);
    });
    show(event, `${options.x} ${options.formatX(x)}`, lines);
  });
  area.addEventListener('pointerleave', () => {
    hide();
    for (const element of [cross, ...marks]) element.setAttribute('visibility', 'hidden');
  });
}

// Points of a long run are shown together.
const means = data.points_together > 1 ? `, mean of ${data.points_together} points` : '';

function learningCharts() {
  const byStep = key => data.epochs.map(e => [e.step, e[key] ?? null]);
  const byEpoch = key => data.epochs.map(e => [e.epoch, e[key] ?? null]);
  lineChart(
      'loss',
      [
        {
          name: 'train' + means,
          colour: 'var(--compute)',
          points: data.points.length ? data.points.map(p => [p[0], p[2]]) : byStep('loss')
        },
        {name: 'valid', colour: 'var(--update)', points: byStep('valid_loss'), dots: true},
        {name: 'test', colour: 'var(--wait)', points: byStep('test_loss'), dots: true},
      ],
      {x: 'step', y: 'loss', formatX: number, formatY: number, integerX: true});
  lineChart(
      'accuracy',
      [
        {name: 'train', colour: 'var(--compute)', points: byEpoch('train_accuracy'), dots: true},
        {name: 'valid', colour: 'var(--update)', points: byEpoch('valid_accuracy'), dots: true},
        {name: 'test', colour: 'var(--wait)', points: byEpoch('test_accuracy'), dots: true},
      ],
      {x: 'epoch', y: 'accuracy', formatX: number, formatY: share, integerX: true, top: 1});
}

// The time of a resumed run begins anew; then steps are the axis.
function throughputChart() {
  const points = data.points.length ? data.points.map(p => [p[0], p[1], p[3]]) :
                                      data.epochs.map(e => [e.step, e.seconds, e.samples_per_s]);
  const byTime = points.every((p, i) => i === 0 || p[1] >= points[i - 1][1]);
  lineChart(
      'throughput', [{
        name: 'samples/s, all workers' + means,
        colour: 'var(--compute)',
        points: points.map(p => [p[byTime ? 1 : 0], p[2]])
      }],
      {
        x: byTime ? 'training time (s)' : 'step',
        y: 'samples/s',
        formatX: number,
        formatY: number,
        integerX: !byTime,
        fromZero: true
      });
}

// Rows are ranks, columns are points of time; the stronger, the more of that time the rank waited.
function waitingMap() {
  const columns = data.waits.filter(w => w.shares.length);
  const ranks = columns.reduce((most, w) => Math.max(most, w.shares.length), 0);
  if (ranks < 2) return empty('waiting', ranks ? 'A single worker waits for nobody.' : 'Nothing was recorded.');
  const most = Math.max(0.1, ...columns.map(w => w.shares.reduce((a, b) => Math.max(a, b ?? 0), 0)));
  const place = document.getElementById('waiting');
  legend(place, [[`full colour: waits ${share(most)} of the time`, 'var(--wait)']]);
  const svg = add(place, 'svg', {role: 'img', 'aria-label': 'share of time waited, by rank and step'});
  drawn(place, width => {
    const height = Math.max(250, ranks * 4 + 52), box = {left: 50, right: width - 12, top: 10, bottom: height - 42};
    const w = (box.right - box.left) / columns.length, h = (box.bottom - box.top) / ranks;
    svg.replaceChildren();
    svg.setAttribute('height', height);
    const every = Math.ceil(14 / h);
    for (let rank = 0; rank < ranks; ++rank) {
      const y = box.top + rank * h;
      if (rank % every === 0) add(svg, 'text', {x: box.left - 8, y: y + h / 2 + 4, 'text-anchor': 'end'}, rank);
      add(svg, 'rect', {
        x: box.left,
        y,
        width: box.right - box.left,
        height: Math.max(1, h - (h > 8 ? 2 : 0)),
        style: 'fill:var(--grid)'
      });
      columns.forEach((c, i) => {
        const v = c.shares[rank];
        if (!isNumber(v)) return;
        const cell = add(svg, 'rect', {
          x: box.left + i * w,
          y,
          width: w + 0.3,
          height: Math.max(1, h - (h > 8 ? 2 : 0)),
          style: `fill:var(--wait);fill-opacity:${(v / most).toFixed(3)}`
        });
        cell.addEventListener(
            'pointermove', event => show(event, `step ${number(c.step)}`, [['', `rank ${rank} waits ${share(v)}`]]));
        cell.addEventListener('pointerleave', hide);
      });
    }
    const marks = ticks(0, columns.length - 1, Math.max(1, width / 110), true);
    for (const i of marks)
      add(svg, 'text', {x: box.left + (i + 0.5) * w, y: box.bottom + 17, 'text-anchor': 'middle'},
          number(columns[i].step));
    add(svg, 'text', {class: 'title', x: (box.left + box.right) / 2, y: height - 5, 'text-anchor': 'middle'}, 'step');
    add(svg, 'text',
        {class: 'title', transform: `translate(11 ${(box.top + box.bottom) / 2}) rotate(-90)`, 'text-anchor': 'middle'},
        'rank');
  });
}

function workerReadouts() {
  for (const segment of document.querySelectorAll('.bar i')) {
    const who = segment.closest('.worker').querySelector('.who').textContent;
    segment.addEventListener(
        'pointermove', event => show(event, who, [[`var(--${segment.className})`, segment.dataset.tip]]));
    segment.addEventListener('pointerleave', hide);
  }
}

workerReadouts();
learningCharts();
throughputChart();
waitingMap();
traceChart();
