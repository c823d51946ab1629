(() => {
  const { axis, byId, css, line, logarithmic, plain, reference } = Charts;
  const { advice, looks } = JSON.parse(byId("data").textContent);

  // The best run of each policy and size, at the load and window asked about.
  const best = new Map();
  for (const run of advice.runs) {
    if (run.load !== advice.load_factor || run.length !== 1 || run.ratio === null) continue;
    const sizes = best.get(run.policy) || new Map();
    best.set(run.policy, sizes);
    const rank = (r) => (r.reached ? 0 : 1e9) + r.ratio;
    const other = sizes.get(run.nvs_pages);
    if (!other || rank(run) < rank(other)) sizes.set(run.nvs_pages, run);
  }
  const ordered = (policy) => [...best.get(policy).values()].sort((a, b) => a.nvs_pages - b.nvs_pages);
  const policies = [...best.keys()];
  const curve = [...new Set(advice.curve.map((p) => p.policy))];
  const all = [...best.values()].flatMap((sizes) => [...sizes.keys()]);

  function sizeAxis(sizes) {
    const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
    // All sizes where there are few, else powers of two.
    const distinct = [...new Set(sizes)].sort((a, b) => a - b);
    const few = distinct.length <= 5;
    const ticks = few ? distinct : [];
    for (let at = 2 ** Math.floor(Math.log2(least)); !few && at <= 2 * most; at *= 2)
      ticks.push(at);
    const every = Math.ceil(ticks.length / 7);
    const shown = ticks.filter((_, i) => i % every === 0);
    const text = (n) => (n >= 1024 ? Number((n / 1024).toPrecision(3)) + " Ki" : String(n));
    return axis("NVS (pages)", { type: "log", tickvals: shown, ticktext: shown.map(text) });
  }

  function bySize(y, label, extra, references, hover) {
    const traces = policies.map((policy) => {
      const runs = ordered(policy);
      const drawn = line(looks[policy], policy, runs.map((r) => r.nvs_pages), runs.map(y), {
        customdata: runs.map((r) =>
          plain(r.thresholds + " %, " + (r.reached ? "reached" : r.why || "missed")),
        ),
        hovertemplate: "%{x:,} pages: " + hover + "<br>%{customdata}",
      });
      const open = drawn.marker.symbol + "-open";
      drawn.marker.symbol = runs.map((r) => (r.why ? open : drawn.marker.symbol));
      return drawn;
    });
    return {
      traces,
      key: label,
      layout: {
        xaxis: sizeAxis(all),
        yaxis: axis(label, extra),
        shapes: references.map((r) => r.shape),
        annotations: references.map((r) => ({ ...r.note, y: Math.log10(r.note.y) })),
        hovermode: "closest",
      },
    };
  }

  function goal() {
    const share = (r) => 100 * Math.max(r.ratio, 1e-4);
    const values = [...best.values()].flatMap((sizes) => [...sizes.values()].map(share));
    const scale = logarithmic([...values, 100]);
    const lines = [reference(100, "goal " + advice.goal)];
    return bySize(share, "Figure (% of its limit)", scale, lines, "%{y:,.0f} % of the limit");
  }

  const percent = { rangemode: "tozero", tickformat: "," };
  const stalls = () =>
    bySize((r) => 100 * r.stalled_share, "Stalled writes (%)", percent, [], "%{y:.2f} % stalled");
  const busy = () =>
    bySize((r) => 100 * r.disk_busy, "Busiest disk (%)", percent, [], "%{y:.1f} % busy");

  function work() {
    const traces = curve.map((policy) => {
      const points = advice.curve.filter((p) => p.policy === policy);
      return line(
        looks[policy],
        policy,
        points.map((p) => p.nvs_pages),
        points.map((p) => p.destaged_per_page),
        { hovertemplate: "%{x:,} pages: %{y:.3f}" },
      );
    });
    const shapes = [];
    if (advice.answer) {
      const x = advice.answer.nvs_pages;
      const stroke = { color: css("--muted"), width: 1.2, dash: "dash" };
      shapes.push({ type: "line", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, line: stroke });
    }
    return {
      traces,
      key: "work",
      layout: {
        xaxis: sizeAxis(advice.curve.map((p) => p.nvs_pages)),
        yaxis: axis("Destaged per page written", percent),
        shapes,
        hovermode: "closest",
      },
    };
  }

  const charts = { goal, stalls, busy, work };
  function drawAll() {
    for (const [id, chart] of Object.entries(charts)) Charts.show(byId(id), chart(), true);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  drawAll();
})();
