"use strict";
// What the charts of all pages have in common: colours, dashes, marks, axes, and drawing.
const Charts = (() => {
  const COLORS = 8;
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
  const SYMBOLS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x"];
  const PATTERNS = ["", "/", "\\", "-", "x", "|", "+"];

  const byId = (id) => document.getElementById(id);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // Series beyond the eighth repeat a colour with another dash, marker and pattern.
  const look = (i, list) => list[(i + Math.floor(i / COLORS)) % list.length];
  const color = (i) => css("--s" + (i % COLORS));
  // plotly.js reads tags and entities in names.
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const short = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
  const checked = (id) => Boolean(byId(id) && byId(id).checked);

  function axis(title, extra) {
    return {
      title: { text: plain(title), standoff: 8 },
      gridcolor: css("--rule"),
      linecolor: css("--muted"),
      zerolinecolor: css("--rule"),
      automargin: true,
      exponentformat: "none",
      ...extra,
    };
  }

  // Marks a log axis at 1, 2 and 5 times powers of ten, or only the powers if it is long.
  function logarithmic(values) {
    const fit = values.filter((v) => v > 0);
    if (!fit.length) return { type: "log" };
    const span = Math.log10(Math.max(...fit) / Math.min(...fit));
    return { type: "log", dtick: span > 3 ? 1 : "D2", tickformat: ",~r" };
  }

  function line(i, name, x, y, rest) {
    const stroke = { color: color(i), width: 2.2, dash: look(i, DASHES) };
    return {
      type: "scatter",
      mode: "lines+markers",
      name: plain(name),
      x,
      y,
      line: stroke,
      marker: { symbol: look(i, SYMBOLS), size: 8, color: color(i) },
      ...rest,
    };
  }

  function bar(i, name, x, y, rest) {
    const pattern = {
      shape: look(i, PATTERNS),
      fillmode: "overlay",
      fgcolor: css("--ground"),
      fgopacity: 0.85,
      size: 7,
      solidity: 0.2,
    };
    return { type: "bar", name: plain(name), x, y, marker: { color: color(i), pattern }, ...rest };
  }

  function reference(y, text) {
    const stroke = { color: css("--muted"), width: 1.2, dash: "dash" };
    return {
      shape: { type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: stroke },
      note: {
        xref: "paper",
        x: 1,
        xanchor: "right",
        yanchor: "bottom",
        y,
        text: plain(text),
        showarrow: false,
        font: { size: 12, color: css("--ink") },
        bgcolor: css("--ground"),
        borderpad: 1,
        opacity: 0.9,
      },
    };
  }

  // Draws a chart into a box. With `legend` it has room for one above it.
  function show(box, { traces, layout, key }, legend) {
    // A narrow box has two names in a row.
    const rows = box.clientWidth < 500 ? Math.ceil(traces.length / 2) : 1;
    const top = legend ? 44 + 20 * rows : 32;
    const base = {
      font: { family: "inherit", size: 13, color: css("--ink") },
      showlegend: legend,
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      uirevision: key,
      margin: { l: 56, r: 12, t: top, b: 44 },
      bargap: 0.25,
      uniformtext: { minsize: 10, mode: "hide" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--muted"), activecolor: css("--accent") },
      // A finger scrolls the page; zooming is then in the buttons.
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      hoverlabel: {
        bgcolor: css("--raised"),
        bordercolor: css("--rule"),
        font: { color: css("--ink") },
      },
    };
    const remove = ["lasso2d", "select2d", "autoScale2d"];
    Plotly.react(
      box,
      traces,
      { ...base, ...layout },
      { responsive: true, displaylogo: false, modeBarButtonsToRemove: remove },
    );
  }

  return {
    COLORS,
    axis,
    bar,
    byId,
    checked,
    color,
    css,
    line,
    logarithmic,
    look,
    plain,
    reference,
    short,
    show,
  };
})();
