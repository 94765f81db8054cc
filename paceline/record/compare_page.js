// Draws the charts of a comparison, with report_charts.js: each measure against time, epochs and bytes.
const colours = ['compute', 'wait', 'communicate', 'update', 'load', 'evaluate', 'save', 'reduction'];

function byteText(v) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  for (; v >= 1024 && unit + 1 < units.length; ++unit) v /= 1024;
  return `${figure.format(v)} ${units[unit]}`;
}

// From the ninth plan on colours come again, dashed.
function seriesOf(measure, axis) {
  return data.plans.map((plan, i) => ({
                          name: plan.name,
                          colour: `var(--${colours[i % colours.length]})`,
                          dash: i >= colours.length,
                          dots: true,
                          points: plan.points.filter(p => isNumber(p[axis])).map(p => [p[axis], ...p[measure]])
                        }));
}

// Bytes are marked at powers of two.
const axes = {
  seconds: {x: 'training time (s)', formatX: number},
  epochs: {x: 'epoch', formatX: number, integerX: true},
  bytes: {x: 'bytes sent by all workers', formatX: byteText, binaryX: true},
};
const goals = {
  loss: {y: 'test loss', formatY: number},
  quality: data.goal === 'rmse' ? {y: 'root mean squared error', formatY: number} :
                                  {y: 'test accuracy', formatY: share, top: 1},
};
const metricOf = {
  loss: 'loss',
  quality: data.goal
};

for (const measure in goals) {
  for (const axis in axes) {
    const goal = data.target && data.target.metric === metricOf[measure] ? data.target.value : undefined;
    const series = seriesOf(measure, axis);
    if (axis === 'bytes' && !series.some(s => s.points.some(p => p[0] > 0))) {
      empty(`${measure}-${axis}`, 'Nothing was sent.');
      continue;
    }
    lineChart(`${measure}-${axis}`, series, {...axes[axis], ...goals[measure], goal});
  }
}
