'use strict';
// What the pages draw with: the JSON in #data, line charts, the readout. Text goes in as text nodes only, never as HTML.
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

// About `count` round values within [low, high]; of bytes multiples of a power of two are round.
function ticks(low, high, count, integers, binary) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  let distance = power * [1, 2, 5, 10].find(f => f * power >= rough * 0.999);
  if (binary) distance = 2 ** Math.ceil(Math.log2(rough));
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

// options: x, y (axis titles), formatX, formatY, integerX, binaryX, fromZero, top (the highest y that makes sense), goal (a y that
// is to be reached); series: [{name, colour, points: [[x, y or null, lowest y, highest y]], dots, dash}], the last two of
// a point where there is a band around the curve
function lineChart(id, series, options) {
  const place = document.getElementById(id);
  series = series.filter(s => s.points.some(p => isNumber(p[1])));
  if (!series.length) return empty(id, 'Nothing was recorded.');
  legend(place, series.map(s => [s.name, s.colour]), true);
  const all = series.flatMap(s => s.points.filter(p => isNumber(p[1])));
  const [bottom, highest] = range(all.flatMap(p => p.slice(1).filter(isNumber)), options.fromZero);
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
    for (const x of ticks(left, right, Math.max(2, width / 90), options.integerX, options.binaryX)) {
      if (!single || x === xs[0])
        add(svg, 'text', {x: X(x), y: box.bottom + 17, 'text-anchor': 'middle'}, options.formatX(x));
    }
    add(svg, 'text', {class: 'title', x: (box.left + box.right) / 2, y: height - 5, 'text-anchor': 'middle'},
        options.x);
    if (isNumber(options.goal) && options.goal >= bottom && options.goal <= top)
      add(svg, 'line', {class: 'cross', x1: box.left, x2: box.right, y1: Y(options.goal), y2: Y(options.goal)});
    for (const s of series) band(svg, s, X, Y);
    for (const s of series) curve(svg, s, X, Y);
    hover(svg, series, X, Y, box, options);
  });
}

// There and back along the points that have one.
function band(svg, s, X, Y) {
  const points = s.points.filter(p => isNumber(p[2]) && isNumber(p[3]));
  if (points.length < 2) return;
  const place = (x, y) => `${X(x).toFixed(1)} ${Y(y).toFixed(1)}`;
  const edge = [...points.map(p => place(p[0], p[3])), ...points.reverse().map(p => place(p[0], p[2]))];
  add(svg, 'path', {class: 'band', d: `M${edge.join('L')}Z`, style: `fill:${s.colour}`});
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
  add(svg, 'path', {class: 'curve', d: path, style: `stroke:${s.colour}${s.dash ? ';stroke-dasharray:7 5' : ''}`});
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
      const [px, py, low, high] = found[i], near = Math.abs(X(px) - X(x)) < 3;
      marks[i].setAttribute('visibility', near ? 'visible' : 'hidden');
      if (!near) return;
      marks[i].setAttribute('cx', X(px));
      marks[i].setAttribute('cy', Y(py));
      const between = isNumber(low) ? ` (${options.formatY(low)} to ${options.formatY(high)})` : '';
      lines.push([s.colour, `${s.name} ${options.formatY(py)}${between}`]);
    });
    show(event, `${options.x} ${options.formatX(x)}`, lines);
  });
  area.addEventListener('pointerleave', () => {
    hide();
    for (const element of [cross, ...marks]) element.setAttribute('visibility', 'hidden');
  });
}
