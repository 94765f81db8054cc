// The trace's excerpt: what every rank did on one axis, with zoom. With the functions of report_charts.js.

// Each reduction goes to the first row that is free when it starts.
function withRows(events, reduction) {
  const ends = [];
  return events.map(([kind, start, length, step, bucket]) => {
    let row = -1;
    if (kind === reduction) {
      row = ends.findIndex(end => end <= start);
      if (row < 0) row = ends.length;
      ends[row] = start + length;
    }
    return {kind, start, length, step, bucket, row};
  });
}

// Times are nanoseconds from the excerpt's start.
class TraceView {
  constructor(place, trace, activities) {
    this.activities = activities;
    this.length = trace.length;
    this.view = [0, trace.length];
    this.width = 0;
    this.dragFrom = null;
    const reduction = activities.indexOf('reduction');
    this.lanes = trace.ranks.map(r => ({...r, events: withRows(r.events, reduction)}));
    const events = this.lanes.flatMap(l => l.events);
    this.rows = Math.min(4, 1 + events.reduce((most, e) => Math.max(most, e.row), -1));
    this.measure(this.lanes.length);
    this.addTools(place, activities.filter((_, kind) => events.some(e => e.kind === kind)));
    this.svg =
        add(place, 'svg', {role: 'img', 'aria-label': 'activities of all ranks over a few steps', height: this.height});
    this.listen();
    drawn(place, width => {
      this.width = width;
      this.draw();
    });
  }

  measure(lanes) {
    const roomy = lanes <= 24;
    this.bar = lanes <= 8 ? 20 : roomy ? 12 : 7;
    this.thin = roomy ? 4 : 2;
    this.pitch = this.bar + this.rows * this.thin + (roomy ? 8 : 3);
    this.height = lanes * this.pitch + 50;
  }
  box() { return {left: 58, right: this.width - 12, top: 6, bottom: this.height - 42}; }
  X(time) {
    const b = this.box();
    return b.left + (time - this.view[0]) / (this.view[1] - this.view[0]) * (b.right - b.left);
  }
  time(x) {
    const b = this.box();
    return this.view[0] + (x - b.left) / (b.right - b.left) * (this.view[1] - this.view[0]);
  }

  look(from, to) {
    const span = Math.min(this.length, Math.max(to - from, this.length / 1e4));
    const start = Math.min(Math.max(0, from), this.length - span);
    this.view = [start, start + span];
    this.draw();
  }
  around(factor) {
    const middle = (this.view[0] + this.view[1]) / 2, half = (this.view[1] - this.view[0]) / 2 * factor;
    this.look(middle - half, middle + half);
  }
  shift(part) {
    const distance = part * (this.view[1] - this.view[0]);
    this.look(this.view[0] + distance, this.view[1] + distance);
  }

  addTools(place, used) {
    const tools = add(place, 'div', {class: 'tools'});
    legend(tools, used.map(name => [name === 'reduction' ? 'bucket under way' : name, `var(--${name})`]));
    const actions = [
      ['◀', 'earlier', () => this.shift(-0.5)], ['▶', 'later', () => this.shift(0.5)],
      ['+', 'zoom in', () => this.around(0.5)], ['−', 'zoom out', () => this.around(2)],
      ['all', 'see all', () => this.look(0, this.length)]
    ];
    for (const [text, label, act] of actions) {
      add(tools, 'button', {type: 'button', 'aria-label': label, title: label}, text).addEventListener('click', act);
    }
  }

  draw() {
    const b = this.box();
    this.svg.replaceChildren();
    for (const t of ticks(this.view[0] / 1e6, this.view[1] / 1e6, Math.max(2, this.width / 120))) {
      const x = this.X(t * 1e6);
      add(this.svg, 'line', {class: 'grid', x1: x, x2: x, y1: b.top, y2: b.bottom});
      add(this.svg, 'text', {x, y: b.bottom + 17, 'text-anchor': 'middle'}, figure.format(t));
    }
    add(this.svg, 'text', {class: 'title', x: (b.left + b.right) / 2, y: this.height - 5, 'text-anchor': 'middle'},
        'time (ms)');
    const everyLabel = Math.ceil(14 / this.pitch);
    this.lanes.forEach((lane, i) => {
      const top = b.top + i * this.pitch;
      if (i % everyLabel === 0)
        add(this.svg, 'text', {x: b.left - 10, y: top + this.bar / 2 + 4, 'text-anchor': 'end'}, `rank ${lane.rank}`);
      for (const event of lane.events) this.block(event, lane, top, b);
    });
  }

  block(event, lane, top, b) {
    const x1 = Math.max(b.left, this.X(event.start)), x2 = Math.min(b.right, this.X(event.start + event.length));
    if (x2 <= b.left || x1 >= b.right || event.row >= this.rows) return;
    const ofStep = event.row < 0;
    const gap = x2 - x1 > 3 ? 1 : 0;
    const colour = `var(--${this.activities[event.kind]})`;
    const rect = add(this.svg, 'rect', {
      x: x1,
      y: ofStep ? top : top + this.bar + 1 + event.row * this.thin,
      width: Math.max(0.6, x2 - x1 - gap),
      height: ofStep ? this.bar : this.thin - 1,
      rx: ofStep && x2 - x1 > 6 ? 2 : 0,
      style: `fill:${colour}`
    });
    const what = this.activities[event.kind] + (event.bucket >= 0 ? ` of bucket ${event.bucket}` : '');
    rect.addEventListener('pointermove', e => {
      if (this.dragFrom !== null) return;
      show(
          e, `rank ${lane.rank} · ${lane.host} · step ${number(event.step)}`,
          [[colour, `${what}, ${figure.format(event.length / 1e6)} ms`]]);
    });
    rect.addEventListener('pointerleave', hide);
  }

  // A drag chooses the part to look at.
  listen() {
    const at = event =>
        Math.min(Math.max(event.clientX - this.svg.getBoundingClientRect().left, this.box().left), this.box().right);
    this.svg.addEventListener('pointerdown', event => {
      if (event.button !== 0) return;
      this.dragFrom = at(event);
      this.mark = add(this.svg, 'rect', {class: 'select', x: this.dragFrom, y: 0, width: 0, height: this.box().bottom});
      this.svg.setPointerCapture(event.pointerId);
      hide();
    });
    this.svg.addEventListener('pointermove', event => {
      if (this.dragFrom === null) return;
      this.mark.setAttribute('x', Math.min(this.dragFrom, at(event)));
      this.mark.setAttribute('width', Math.abs(at(event) - this.dragFrom));
    });
    const release = event => {
      if (this.dragFrom === null) return;
      const [from, to] = [this.dragFrom, at(event)].sort((a, b) => a - b);
      this.dragFrom = null;
      this.mark.remove();
      if (to - from > 5 && event.type === 'pointerup') this.look(this.time(from), this.time(to));
    };
    this.svg.addEventListener('pointerup', release);
    this.svg.addEventListener('pointercancel', release);
    this.svg.addEventListener('dblclick', () => this.look(0, this.length));
  }
}

function traceChart() {
  if (!data.trace.length || !data.trace.ranks.length) return empty('trace', 'No trace was recorded.');
  new TraceView(document.getElementById('trace'), data.trace, data.activities);
}
