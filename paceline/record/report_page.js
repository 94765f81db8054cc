// Draws the charts of the report, with report_charts.js.
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
  if (data.epochs.some(e => isNumber(e.test_rmse))) return errorChart(byEpoch);
  lineChart(
      'accuracy',
      [
        {name: 'train', colour: 'var(--compute)', points: byEpoch('train_accuracy'), dots: true},
        {name: 'valid', colour: 'var(--update)', points: byEpoch('valid_accuracy'), dots: true},
        {name: 'test', colour: 'var(--wait)', points: byEpoch('test_accuracy'), dots: true},
      ],
      {x: 'epoch', y: 'accuracy', formatX: number, formatY: share, integerX: true, top: 1});
}

// Where numbers are predicted, the loss is the mean of their squared errors.
function errorChart(byEpoch) {
  const root = key => byEpoch(key).map(([x, y]) => [x, isNumber(y) ? Math.sqrt(y) : null]);
  lineChart(
      'accuracy',
      [
        {name: 'train', colour: 'var(--compute)', points: root('loss'), dots: true},
        {name: 'valid', colour: 'var(--update)', points: root('valid_loss'), dots: true},
        {name: 'test', colour: 'var(--wait)', points: byEpoch('test_rmse'), dots: true},
      ],
      {x: 'epoch', y: 'root mean squared error', formatX: number, formatY: number, integerX: true});
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
