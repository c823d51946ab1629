"use strict";
// The curves of the page: what each shows, and its figures as a table.
const Charts = (() => {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // A policy has the colour that it has in all plots, whatever its parameters.
  const COLORS = 8;
  const policyColor = (policy) => "--s" + (LOOKS[policy.split(/[: ,/+]/)[0]] || 0) % COLORS;
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const round = (value) => (value >= 100 ? Math.round(value).toLocaleString("en") : value);
  const local = (ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60000);
  const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");

  const bytes = (n) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = 0;
    while (n >= 1024 && at < units.length - 1) {
      n /= 1024;
      at += 1;
    }
    return (n >= 100 || at === 0 ? n.toFixed(0) : n.toFixed(1)) + " " + units[at];
  };

  const capped = (value, most) => (value === null ? null : Math.min(value, most));

  const curves = [
    {
      id: "c-occupancy",
      title: "Occupancy of the cache",
      note: "Per cent of the NVS. Dashed: between the thresholds the destage depth grows from 0.",
      unit: "%",
      lines: [["Occupancy", (p) => p.occupancy]],
      color: (sample) => policyColor(sample.status.policy),
      axis: { range: [0, 104] },
      thresholds: true,
    },
    {
      id: "c-queues",
      title: "RanQ, SeqQ and its desired size",
      note: "Pages held that are random, and sequential. Desired is drawn to the NVS's size at most.",
      unit: "pages",
      lines: [
        ["RanQ", (p) => p.queues && p.queues[0]],
        ["SeqQ", (p) => p.queues && p.queues[1]],
        ["Desired SeqQ", (p, sample) => capped(p.queues && p.queues[2], sample.status.nvs_pages)],
      ],
      absent: (sample) => !sample.point.queues,
    },
    {
      id: "c-iops",
      title: "Requests of hosts",
      note: "Reads and writes answered per second.",
      unit: "per second",
      lines: [
        ["Writes", (p) => p.writes],
        ["Reads", (p) => p.reads],
      ],
    },
    {
      id: "c-latency",
      title: "Response time",
      note: "Median and 99 % of each second, in milliseconds; logarithmic.",
      unit: "ms",
      log: true,
      lines: [
        ["Writes, median", (p) => p.write_us && p.write_us[0] / 1000],
        ["Writes, 99 %", (p) => p.write_us && p.write_us[1] / 1000],
        ["Reads, median", (p) => p.read_us && p.read_us[0] / 1000],
        ["Reads, 99 %", (p) => p.read_us && p.read_us[1] / 1000],
      ],
    },
    {
      id: "c-hits",
      title: "Hit ratios",
      note: "Pages written that were held already; reads that the NVS answered alone.",
      unit: "%",
      lines: [
        ["Writes", (p) => p.write_hits],
        ["Reads", (p) => p.read_hits],
      ],
      axis: { range: [0, 104] },
    },
    {
      id: "c-destages",
      title: "Destage rate and concurrency",
      note: "Write groups destaged per second (left), destage writes in flight (right).",
      unit: "groups per second",
      lines: [["Groups per second", (p) => p.destages]],
      second: ["In flight", (p) => p.in_flight],
    },
  ];

  function figure(id, title, note, round) {
    const box = document.createElement("figure");
    box.innerHTML =
      "<figcaption><h3></h3><p></p></figcaption><div class='chart' role='img'></div>" +
      "<details><summary></summary><div class='scroll' role='group' tabindex='0'></div></details>";
    box.querySelector("h3").textContent = title;
    box.querySelector("p").textContent = note;
    box.querySelector("summary").textContent = "Figures of: " + title;
    box.querySelector(".scroll").setAttribute("aria-label", "Figures of: " + title);
    const chart = box.querySelector(".chart");
    chart.id = id;
    chart.classList.toggle("round", Boolean(round));
    chart.setAttribute("aria-label", title);
    return box;
  }

  function table(box, heads, rows) {
    const out = document.createElement("table");
    const head = out.createTHead().insertRow();
    for (const text of heads) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = text;
      head.append(cell);
    }
    const body = out.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      for (const text of row) line.insertCell().textContent = text;
    }
    box.replaceChildren(out);
  }

  const axis = (extra) => ({
    gridcolor: css("--rule"),
    linecolor: css("--muted"),
    zerolinecolor: css("--rule"),
    automargin: true,
    fixedrange: true,
    exponentformat: "none",
    ...extra,
  });

  const base = (extra) => ({
    font: { family: "inherit", size: 13, color: css("--ink") },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 52, r: 12, t: 28, b: 30 },
    dragmode: false,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    hoverlabel: { bgcolor: css("--raised"), font: { color: css("--ink") } },
    ...extra,
  });
  const CONFIG = { responsive: true, displayModeBar: false };

  function thresholds(sample) {
    const [low, high] = sample.thresholds;
    const lines = [
      [low, "low " + low + " %", "top"],
      [high, "high " + high + " %", "bottom"],
    ];
    return {
      shapes: lines.map(([y]) => ({
        type: "line",
        xref: "paper",
        x0: 0,
        x1: 1,
        y0: y,
        y1: y,
        line: { color: css("--muted"), width: 1.2, dash: "dash" },
      })),
      annotations: lines.map(([y, text, yanchor]) => ({
        xref: "paper",
        x: 0,
        xanchor: "left",
        yanchor,
        y,
        text,
        showarrow: false,
        font: { size: 12, color: css("--ink") },
        bgcolor: css("--ground"),
        borderpad: 1,
      })),
    };
  }

  function drawCurve(curve, points, sample) {
    const x = points.map((p) => local(p.at_ms));
    const shown = curve.second ? [...curve.lines, curve.second] : curve.lines;
    const traces = shown.map(([name, get], i) => ({
      type: "scatter",
      mode: "lines",
      name,
      x,
      y: points.map((p) => get(p, sample)),
      yaxis: curve.second && i === shown.length - 1 ? "y2" : "y",
      line: {
        color: css(curve.color ? curve.color(sample) : "--s" + i),
        width: 2,
        dash: DASHES[i],
      },
      hovertemplate: "%{y:,.4~g}",
    }));
    const last = points.length ? points[points.length - 1].at_ms : Date.now();
    const span = Math.max(60000, last - (points.length ? points[0].at_ms : last));
    const y = curve.log
      ? { type: "log", tickformat: ",~r", nticks: 6 }
      : { rangemode: "tozero", tickformat: ",~r" };
    const layout = base({
      showlegend: shown.length > 1,
      xaxis: axis({
        type: "date",
        range: [local(last - span), local(last)],
        nticks: 6,
        tickformat: "%H:%M:%S",
      }),
      yaxis: axis({ ...y, ...curve.axis }),
      hovermode: "x unified",
    });
    if (curve.second) {
      layout.yaxis2 = axis({ overlaying: "y", side: "right", rangemode: "tozero", showgrid: false });
      layout.margin.r = 44;
    }
    if (curve.thresholds) Object.assign(layout, thresholds(sample));
    Plotly.react(document.getElementById(curve.id), traces, layout, CONFIG);
  }

  function description(curve, points, sample) {
    const p = points[points.length - 1];
    const shown = curve.second ? [...curve.lines, curve.second] : curve.lines;
    const parts = shown.map(([name, get]) => {
      const value = p ? get(p, sample) : null;
      return name + " " + (value === null || value === undefined ? "none" : round(value));
    });
    return curve.title + ", now, " + curve.unit + ": " + parts.join(", ");
  }

  function curveTable(box, curve, points, sample) {
    const shown = curve.second ? [...curve.lines, curve.second] : curve.lines;
    const cell = (value) => (value === null || value === undefined ? "–" : String(round(value)));
    const rows = points
      .slice(-10)
      .reverse()
      .map((p) => [clock(p.at_ms), ...shown.map(([, get]) => cell(get(p, sample)))]);
    table(box, ["Time", ...shown.map(([name]) => name)], rows);
  }

  const PAGE = 4096;
  const degrees = (page, sample) => (360 * page) / Math.max(1, sample.volume_pages);

  // The volume as a ring, as in Fig. 1 of the WOW paper: the last destages, the newest outside.
  function drawRing(sample) {
    const pages = sample.recent;
    const ages = pages.map((_, i) => (i + 1) / pages.length);
    const traces = [
      {
        type: "scatterpolar",
        mode: "markers",
        name: "Destages, newest outside",
        theta: pages.map((page) => degrees(page, sample)),
        r: ages.map((age) => 0.55 + 0.4 * age),
        marker: {
          color: css(policyColor(sample.status.policy)),
          size: 6,
          opacity: ages.map((age) => 0.25 + 0.75 * age),
        },
        text: pages.map((page) => bytes(page * PAGE)),
        hovertemplate: "destage at %{text}<extra></extra>",
      },
      ...sample.pointers.map((pointer, i) => ({
        type: "scatterpolar",
        mode: "lines",
        name: "Pointer: " + pointer.name,
        theta: [degrees(pointer.page, sample), degrees(pointer.page, sample)],
        r: [0.45, 1.05],
        line: { color: css(i ? "--muted" : "--ink"), width: 4, dash: DASHES[i] },
        hovertemplate: pointer.name + " at " + bytes(pointer.page * PAGE) + "<extra></extra>",
      })),
    ];
    const parts = [0, 1, 2, 3, 4, 5, 6, 7];
    const polar = {
      bgcolor: "rgba(0,0,0,0)",
      hole: 0.42,
      radialaxis: { visible: false, range: [0.45, 1.06], fixedrange: true },
      angularaxis: {
        direction: "clockwise",
        rotation: 90,
        gridcolor: css("--rule"),
        linecolor: css("--muted"),
        tickvals: parts.map((part) => part * 45),
        ticktext: parts.map((part) => bytes((sample.volume_pages * PAGE * part) / 8)),
      },
    };
    const layout = base({ polar, showlegend: true, margin: { l: 40, r: 40, t: 52, b: 30 } });
    layout.legend = { orientation: "h", y: 1.09, yanchor: "bottom", x: 0 };
    Plotly.react(document.getElementById("c-ring"), traces, layout, CONFIG);
  }

  function ringLabel(sample) {
    const where = sample.pointers.map((p) => p.name + " at " + bytes(p.page * PAGE));
    const last = sample.recent.slice(-1).map((page) => bytes(page * PAGE));
    return (
      "Where destages fall on the volume; pointers: " +
      (where.join(", ") || "none") +
      "; last destage: " +
      (last[0] || "none")
    );
  }

  function ringTable(box, sample) {
    const rows = sample.pointers.map((p) => ["Pointer: " + p.name, bytes(p.page * PAGE)]);
    const last = sample.recent.slice(-20).reverse();
    rows.push(...last.map((page, i) => ["Destage, " + (i + 1) + ". last", bytes(page * PAGE)]));
    table(box, ["What", "Offset on the volume"], rows);
  }

  const seen = new Set();
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) seen.add(entry.target.id);
      else seen.delete(entry.target.id);
    }
  });

  function build(parent) {
    const ring = figure(
      "c-ring",
      "Where destages fall",
      "The volume as a ring, clockwise from offset 0: the last 256 destages and the pointers.",
      true,
    );
    for (const curve of curves) parent.append(figure(curve.id, curve.title, curve.note, false));
    ring.classList.add("tall");
    parent.firstChild.after(ring);
    for (const chart of parent.querySelectorAll(".chart")) {
      // A server built without the planner has no charting library.
      if (window.Plotly) watcher.observe(chart);
      else chart.hidden = true;
    }
  }

  // Draws what is on the screen; all if `all`.
  function draw(points, sample, all) {
    for (const curve of curves) {
      const chart = document.getElementById(curve.id);
      const box = chart.closest("figure");
      box.hidden = Boolean(curve.absent && curve.absent(sample));
      chart.setAttribute("aria-label", description(curve, points, sample));
      if (box.hidden) continue;
      if (window.Plotly && (all || seen.has(curve.id))) drawCurve(curve, points, sample);
      const details = box.querySelector("details");
      if (details.open) curveTable(details.querySelector("div"), curve, points, sample);
    }
    const ring = document.getElementById("c-ring");
    ring.setAttribute("aria-label", ringLabel(sample));
    if (window.Plotly && (all || seen.has("c-ring"))) drawRing(sample);
    const details = ring.closest("figure").querySelector("details");
    if (details.open) ringTable(details.querySelector("div"), sample);
  }

  return { build, draw, bytes, clock, policyColor };
})();
